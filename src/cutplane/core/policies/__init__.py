"""The four choices of a bundle method: stabilizers, memory, queries, cuts."""
