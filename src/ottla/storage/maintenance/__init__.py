"""Work on whole segments away from the hot path: compaction, scrub, and the dump."""
