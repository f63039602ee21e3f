"""Backups of a cluster by the Kafka protocol: online, incremental, on a disk or in an object store; and restores.

`take.py` tells a backup and `restore.py` a restore; `manifest.py`, `cut.py`, `increment.py` and `groups.py` decide.
Which guarantees there are, and why it is done so: docs/decisions/0036-backups.md.
"""
