"""Losses that tie many outputs of an example together."""
