"""The number of records of a batch: as many as are processed in a tenth of a second. Pure."""

from __future__ import annotations

BATCH_S = 0.1
"""Kafka Streams commits as often where it processes exactly once."""
LEAST = 500
"""A batch has no fewer records, however slow they are: each one is a transaction."""


class Pace:
    """Grows and shrinks with the rate of full batches."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.records = min(LEAST, most)

    def took(self, count: int, seconds: float) -> None:
        """A batch of so many records was processed in so many seconds."""
        if count == self.records:
            wanted = int(count * BATCH_S / seconds) if seconds else 2 * count
            self.records = max(min(LEAST, self._most), min(wanted, 2 * count, self._most))
