"""Labels for tokens of sequences as users have them: names, the tagger, its files and measures."""
