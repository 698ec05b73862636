"""What can be wrong with a checkpoint, said in one line that names it."""

from __future__ import annotations


class CheckpointError(ValueError):
    """A checkpoint cannot be used, for the reason that the message gives; nothing was changed."""
