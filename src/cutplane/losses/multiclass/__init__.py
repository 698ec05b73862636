"""Losses of the scores of all classes together."""
