"""Ascent on duals: of examples, of shares of classes, of blocks of outputs."""
