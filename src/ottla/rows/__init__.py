"""Rows of topics without Spark: which partitions and offsets, and their records as Arrow batches."""
