"""Stabilizers, memory, queries and cuts: the contracts are in `cutplane.core.solver`."""
