"""Rounds of a load: planned, attempted, published, committed."""
