"""Fitted models as ONNX graphs, for runtimes that know nothing of Python."""
