"""Replication machines: what a leader may call committed. Pure; driven by broker/replicas/partition.py."""
