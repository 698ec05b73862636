"""The risk of a linear chain: points, batches of a network, pieces of an online method."""
