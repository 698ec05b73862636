"""Rankings of the documents of queries."""
