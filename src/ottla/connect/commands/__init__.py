"""`ottla connect` and what its verbs do."""
