"""Losses of all classes at once, and the solvers that suit them."""
