"""Losses of a whole sample: F-measures, precision and recall at k, the area under the ROC curve."""
