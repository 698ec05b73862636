"""Several outputs an example: quantiles that do not cross, sets of labels, vectors."""
