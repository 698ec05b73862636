"""Methods for functions in the span of the examples."""
