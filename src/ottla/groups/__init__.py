"""Groups: the pure machine behind one partition of `__consumer_offsets`.

broker/coordinators/shard_runner.py asks here; what a decision wants written goes to the log, and comes back through
`apply`.
"""
