"""The solver. It knows planes and points, nothing of data or losses."""
