"""Batches that may be in a log twice: the first copy was deleted, and no replica knew of it when the retry came.

Retention takes records, but the replicas remember their producers. A replica that is made anew afterwards learns of
producers from the remaining records, as in Apache Kafka; once it leads, it takes a batch that is sent again for a new
one. So the first copy was below the log's start before the second was written, and a directory was replaced before.
"""

from __future__ import annotations

from ottla.sim.checkers.history import Bounds, Disturbed, History, LogKey, Polled, Scanned, Sent

REPLACED = frozenset({"lost disk", "failed directory", "lost directory", "rolled-back directory"})
"""Faults after which a replica is made anew."""


def without_forgotten(history: History) -> History:
    """The same history without reads of the first copy of such a batch."""
    stale = _stale_copies(history)
    if not stale:
        return history
    seen = History()
    seen.traits, seen.replicated, seen.repaired_within_us = (
        history.traits,
        history.replicated,
        history.repaired_within_us,
    )
    for event in history.events:
        if isinstance(event, Polled | Scanned) and event.log in stale:
            gone = stale[event.log]
            seen.add(event._replace(records=tuple(record for record in event.records if record not in gone)))
        else:
            seen.add(event)
    return seen


def _stale_copies(history: History) -> dict[LogKey, set[tuple[int, bytes]]]:
    """By log, the offset and value of each first copy."""
    found: dict[LogKey, set[tuple[int, bytes]]] = {}
    first_at: dict[LogKey, dict[bytes, int]] = {}
    idempotent: set[bytes] = set()
    bounds: dict[LogKey, list[Bounds]] = {}
    replaced = False
    for event in history.events:
        if isinstance(event, Disturbed):
            replaced |= event.what in REPLACED
        elif isinstance(event, Sent) and event.idempotent:
            idempotent.update(event.values)
        elif isinstance(event, Bounds):
            bounds.setdefault(event.log, []).append(event)
        elif isinstance(event, Polled | Scanned) and not history.traits_of(event.log).retained:
            for offset, value in event.records:
                first = first_at.setdefault(event.log, {}).setdefault(value, offset)
                again = offset > first and replaced and value in idempotent
                if again and _was_deleted(bounds.get(event.log, []), first, offset):
                    found.setdefault(event.log, set()).add((first, value))
    return found


def _was_deleted(bounds: list[Bounds], first: int, second: int) -> bool:
    """True if a reader was told of a log that no longer had the first copy and did not have the second one yet."""
    return any(told.log_start > first and told.high_watermark <= second for told in bounds)
