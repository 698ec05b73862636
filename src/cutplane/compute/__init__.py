"""How work is spread and products are computed, never what they mean."""
