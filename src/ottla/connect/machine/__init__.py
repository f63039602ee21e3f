"""Connect's decisions: the tables of its topics, the changes that calls make, the work of each worker. Pure."""
