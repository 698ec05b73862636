"""Linear chains: inference, marginals, the n best labelings, their losses."""
