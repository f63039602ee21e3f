"""One segment: its file of batches, its indexes, and what is known to be damaged in it. Enter at `segment.py`."""
