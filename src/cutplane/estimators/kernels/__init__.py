"""Kernel machines and Gaussian processes."""
