"""Folding of RNA."""
