"""A log directory: its owner, its last writer, its checkpoints, its logs, and files that nothing explains."""
