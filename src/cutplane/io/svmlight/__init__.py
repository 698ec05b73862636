"""Data in the svmlight (LIBSVM) format: lines, pieces, whole files."""
