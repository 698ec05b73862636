"""A proven choice of lam."""
