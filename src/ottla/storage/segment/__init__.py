"""One segment: its file of batches, its indexes, and its known damage. Enter at `segment.py`."""
