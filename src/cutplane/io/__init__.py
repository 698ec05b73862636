"""Files: data, models, traces. What is read is checked; what is written is whole."""

from cutplane.io.atomic import check_writable, write_atomically
from cutplane.io.conll import ConllData, read_conll
from cutplane.io.errors import InputError, OutputError
from cutplane.io.folders import DataFolder, convert, open_folder
from cutplane.io.frames import FrameData, read_frames
from cutplane.io.models import load_model, save_model
from cutplane.io.onnx.converters import register_onnx_converters
from cutplane.io.onnx.export import OnnxUnavailable, export_onnx
from cutplane.io.svmlight.reader import SvmlightData, read_svmlight
from cutplane.io.traces import TraceWriter, read_trace, split_runs

__all__ = [
    "ConllData",
    "DataFolder",
    "FrameData",
    "InputError",
    "OnnxUnavailable",
    "OutputError",
    "SvmlightData",
    "TraceWriter",
    "check_writable",
    "convert",
    "export_onnx",
    "load_model",
    "open_folder",
    "read_conll",
    "read_frames",
    "read_svmlight",
    "read_trace",
    "register_onnx_converters",
    "save_model",
    "split_runs",
    "write_atomically",
]
