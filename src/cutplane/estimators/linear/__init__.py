"""Linear models of rows: what they share, one file each, and their paths along lam."""
