"""SASL's mechanisms without a socket: `step` takes the other side's bytes and gives the next ones."""
