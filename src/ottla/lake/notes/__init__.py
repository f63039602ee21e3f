"""A lake's notes on its rounds, `_ottla/`: plans, publications, commits, schemas of topics."""
