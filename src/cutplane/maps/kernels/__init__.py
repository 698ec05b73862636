"""Functions in the span of the examples: kernels, their matrix, and the map to scores."""
