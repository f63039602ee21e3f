"""Records and batches of them, as pages and searches take them."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.console.values import ShownRecord, Viewer
from ottla.records.batch import Batch
from ottla.records.builder import BatchBuilder
from ottla.records.reader import Headers, Record


def shown(
    value: bytes | None = b"{}", key: bytes | None = None, headers: Headers = (), *, viewer: Viewer | None = None
) -> ShownRecord:
    """One record of partition 3, offset 7, time 1000."""
    return (viewer or Viewer()).shown(3, [Record(7, 1000, key, value, headers)])[0]


def batch(records: Sequence[tuple[bytes | None, bytes | None, Headers]]) -> Batch:
    """A batch of keys, values and headers, at offset 0."""
    builder = BatchBuilder()
    for at, (key, value, headers) in enumerate(records):
        builder.add(1_000 + at, key, value, headers)
    return Batch(builder.build())
