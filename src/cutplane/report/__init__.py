"""What a user sees of a run: its progress, and pictures of its bounds."""
