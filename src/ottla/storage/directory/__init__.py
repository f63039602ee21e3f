"""A log directory: whose it is and of when, its checkpoints, its logs, and what lies in it unexplained."""
