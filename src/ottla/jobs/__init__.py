"""The parts that long-running jobs have in common: states, dead letters, options, topics that hold state."""
