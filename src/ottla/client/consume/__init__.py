"""Consuming: positions and groups, fetches under way, offsets."""
