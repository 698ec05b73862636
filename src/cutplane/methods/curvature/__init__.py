"""Second derivatives: what is roughly known of them, from which L-BFGS starts, and of classes."""
