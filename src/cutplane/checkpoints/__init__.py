"""Checkpoints: a run's state in files, to go on from with the same bits."""
