"""The reduced problem: quadratic, by Newton steps, or a linear program."""
