"""Groups: the pure machine behind one partition of `__consumer_offsets`.

broker/coordinators/shard_runner.py asks here. The entries of a decision go to the log, and come back through `apply`.
"""
