"""Lag in time: how old the first record is that a group has not read, by the record's timestamp."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from ottla.console.desk import Desk
from ottla.kernel.errors import ApiError
from ottla.kernel.ids import TopicPartition
from ottla.records.batch import iterate_batches
from ottla.records.faults import CorruptRecords
from ottla.records.reader import read_records

MOST_ASKED = 64
"""Partitions of a group whose records are looked at for one page: those that lag most."""
_AT_ONCE = 16


async def first_unread_ms(
    desk: Desk, committed: Mapping[TopicPartition, int], lags: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The timestamp of the first record at or behind each committed offset, for the partitions that lag most.

    A partition is left out where the user may not read it, and where the record has no timestamp or is gone.
    """
    asked = sorted((place for place, lag in lags.items() if lag), key=lambda place: -lags[place])[:MOST_ASKED]
    found: dict[TopicPartition, int] = {}
    for at in range(0, len(asked), _AT_ONCE):
        some = asked[at : at + _AT_ONCE]
        times = await asyncio.gather(*(_first_ms(desk, place, committed[place]) for place in some))
        found |= {place: time for place, time in zip(some, times, strict=True) if time is not None}
    return found


async def _first_ms(desk: Desk, place: TopicPartition, offset: int) -> int | None:
    try:
        piece = await desk.admin.cluster.fetch(place.topic, place.partition, offset, max_bytes=1, max_wait_ms=0)
    except ApiError:
        return None
    return None if piece.error else time_at(piece.records, offset)


def time_at(view: memoryview, offset: int) -> int | None:
    """The timestamp of the first record from an offset on; that of its batch where only the batch tells.

    Control batches, and batches whose last records were compacted, have no record there.
    """
    for batch in iterate_batches(view):
        if batch.last_offset < offset:
            continue
        time = batch.max_timestamp
        if not batch.is_control:
            try:
                time = next((each.timestamp for each in read_records(batch) if each.offset >= offset), time)
            except CorruptRecords:
                return None
        return time if time >= 0 else None
    return None


def age_shown(ms: int | None) -> str:
    """An age for people, in its two largest units: 2 d 3 h, 5 min 20 s, 0 s."""
    if ms is None:
        return "?"
    seconds = ms // 1000
    parts: list[str] = []
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        count, seconds = divmod(seconds, size)
        if count or parts or unit == "s":
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2])
