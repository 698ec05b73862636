"""What is unlike the examples."""
