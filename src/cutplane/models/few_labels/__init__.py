"""Few examples with labels, and many without."""
