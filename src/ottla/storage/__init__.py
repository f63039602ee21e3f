"""Batches on disk in Kafka's layout. Enter at `log.py`; `disk/local.py` is where files are touched."""
