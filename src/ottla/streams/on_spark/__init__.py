"""Topologies run by Spark: its micro-batches, shuffles and retries around the engine and its state files."""
