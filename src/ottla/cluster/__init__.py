"""Decides changes of the cluster: topics, partitions, brokers, configurations. Enter at `decide.py`."""
