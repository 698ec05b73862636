"""Losses of one score: sums over examples."""
