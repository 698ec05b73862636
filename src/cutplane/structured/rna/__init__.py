"""RNA secondary structure: features and folding."""
