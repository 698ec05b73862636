"""Files: data, models, traces. What is read is checked; what is written is whole."""

from cutplane.io.atomic import check_writable, write_atomically
from cutplane.io.conll import ConllData, read_conll
from cutplane.io.errors import InputError, OutputError
from cutplane.io.frames import FrameData, read_frames
from cutplane.io.models import load_model, save_model
from cutplane.io.svmlight import SvmlightData, read_svmlight
from cutplane.io.traces import TraceWriter, read_trace, split_runs

__all__ = [
    "ConllData",
    "FrameData",
    "InputError",
    "OutputError",
    "SvmlightData",
    "TraceWriter",
    "check_writable",
    "load_model",
    "read_conll",
    "read_frames",
    "read_svmlight",
    "read_trace",
    "save_model",
    "split_runs",
    "write_atomically",
]
