"""Files: data, models, traces. What is read is checked; what is written is whole."""

from cutplane.io.conversion import convert as convert
from cutplane.io.files import InputError as InputError
from cutplane.io.files import OutputError as OutputError
from cutplane.io.files import check_writable as check_writable
from cutplane.io.files import write_atomically as write_atomically
from cutplane.io.folders import DataFolder as DataFolder
from cutplane.io.folders import open_folder as open_folder
from cutplane.io.models.files import load_model as load_model
from cutplane.io.models.files import save_model as save_model
from cutplane.io.onnx import OnnxUnavailable as OnnxUnavailable
from cutplane.io.onnx import export_onnx as export_onnx
from cutplane.io.onnx import register_onnx_converters as register_onnx_converters
from cutplane.io.sequences import ConllData as ConllData
from cutplane.io.sequences import FrameData as FrameData
from cutplane.io.sequences import read_conll as read_conll
from cutplane.io.sequences import read_frames as read_frames
from cutplane.io.svmlight import SvmlightData as SvmlightData
from cutplane.io.svmlight import read_svmlight as read_svmlight
from cutplane.io.traces import TraceWriter as TraceWriter
from cutplane.io.traces import read_trace as read_trace
from cutplane.io.traces import split_runs as split_runs
