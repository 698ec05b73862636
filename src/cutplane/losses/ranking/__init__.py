"""Losses of the documents of a query."""
