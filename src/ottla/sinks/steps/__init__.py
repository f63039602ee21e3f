"""Kafka's transformations on Arrow batches, for the lake: each does to columns what it does to single records."""
