"""Graphs of labels: exact on forests, a linear program elsewhere."""
