"""Hidden Markov models of sequences of vectors."""
