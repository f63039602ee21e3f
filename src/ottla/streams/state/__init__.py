"""State files: what a task has kept after each batch, in a folder of a local disk or of a store of the lake."""
