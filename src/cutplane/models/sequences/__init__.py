"""Labels of the tokens of sequences: conditional random fields and margins of chains."""
