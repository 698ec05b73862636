"""Losses that judge the sample as a whole: bounds on F1, precision at k, ROC area."""
