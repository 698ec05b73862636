"""Methods that run where the rows are: on the members of a team that hold them."""
