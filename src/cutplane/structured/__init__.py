"""Structured models: outputs whose parts depend on each other, and inference over them."""

from cutplane.structured.chain_losses import ChainCRF, ChainLoss, ChainMargin

__all__ = ["ChainCRF", "ChainLoss", "ChainMargin"]
