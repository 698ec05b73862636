"""Structured models: outputs whose parts depend on each other, and inference over them."""
