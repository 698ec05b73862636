"""Outputs that block ascent keeps, with their weights."""
