"""Connectors: the contract for those who write one, the registry of all that there are, and the ones shipped."""
