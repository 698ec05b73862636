"""Coordinate descent: for regularizers that are sums over coordinates."""
