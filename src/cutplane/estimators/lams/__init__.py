"""Which lam: paths along it, cross-validation, and a choice with a proof."""
