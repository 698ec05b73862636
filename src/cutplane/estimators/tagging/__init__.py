"""The tagger of sequences: its data, its fit, its predictions, its weights by name."""
