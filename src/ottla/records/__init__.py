"""Record batches of format v2: their headers, their records, checksums, compression and Arrow-style columns."""
