"""Hidden Markov models as estimators."""
