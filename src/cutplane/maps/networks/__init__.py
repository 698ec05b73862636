"""Networks of PyTorch as maps from parameters to scores."""
