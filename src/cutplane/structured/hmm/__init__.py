"""Hidden Markov models with Gaussian mixtures: parameters, best paths, likelihood; no training."""
