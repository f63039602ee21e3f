"""Groups: the pure machine behind one partition of `__consumer_offsets`.

Called by broker/coordinators/shard_runner.py. The entries of a decision go to the log, and come back through `apply`.
"""
