"""Risks whose rows lie elsewhere: in shards, on the members of a team."""
