"""The second judge: offsets rise in real time and leave no hole, and no log start or watermark goes back."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.sim.checkers.history import (
    Acknowledged,
    Anomaly,
    Bounds,
    DeleteAsked,
    DeleteDone,
    History,
    LogKey,
    OutOfRange,
    Polled,
    Scanned,
    Sent,
)

_ALL = -1


def check_order(history: History) -> Iterator[Anomaly]:
    """Anomalies of offsets."""
    yield from _real_time(history)
    yield from _holes(history)
    yield from _lines(history)
    yield from _starts(history)


def _real_time(history: History) -> Iterator[Anomaly]:
    """A batch gets an offset above every record that was acknowledged with acks=all before the batch was first sent.

    With replicas this is not promised to `acks=1`: a deposed leader may not know that it was deposed.
    """
    highest: dict[LogKey, int] = {}
    known_at: dict[tuple[str, int], int] = {}
    acks: dict[tuple[str, int], int] = {}
    for event in history.events:
        if isinstance(event, Sent):
            known_at[event.producer, event.batch] = highest.get(event.log, -1)
            acks[event.producer, event.batch] = event.acks
        elif isinstance(event, Acknowledged) and history.traits_of(event.log).durable:
            known = known_at[event.producer, event.batch]
            if event.base_offset <= known and (acks[event.producer, event.batch] == _ALL or not history.replicated):
                name = history.name(event.log)
                yield Anomaly(
                    "nonmonotonic-send",
                    f"{name}: {event.producer}'s batch {event.batch} got {event.base_offset}, {known} was taken before",
                )
            if acks[event.producer, event.batch] == _ALL:
                highest[event.log] = max(highest.get(event.log, -1), event.base_offset)


def _holes(history: History) -> Iterator[Anomaly]:
    """In logs without transactions and compaction offsets are dense, in every answer and in the last scan."""
    for event in history.events:
        if isinstance(event, Polled):
            expected, reader = event.asked_offset, event.reader
        elif isinstance(event, Scanned):
            expected, reader = event.start, "the last scan"
        else:
            continue
        for offset, _ in event.records:
            if offset != expected:
                kind = "poll-skip" if offset > expected else "nonmonotonic-poll"
                yield Anomaly(kind, f"{history.name(event.log)}: {reader} found {offset} where {expected} was due")
                break
            expected += 1
        else:
            if isinstance(event, Scanned) and expected != event.end:
                yield Anomaly("poll-skip", f"{history.name(event.log)}: the scan ends at {expected}, not {event.end}")


def _lines(history: History) -> Iterator[Anomaly]:
    """Watermarks that one process of a broker tells one reader do not go back within a leader epoch, and log starts do
    not go back behind an answered DeleteRecords. Without replicas they do not go back over restarts either."""
    told: dict[tuple[str, LogKey, int, int], Bounds] = {}
    deleted: dict[LogKey, int] = {}
    due: dict[tuple[str, LogKey], int] = {}
    for event in history.events:
        if isinstance(event, DeleteDone):
            deleted[event.log] = max(deleted.get(event.log, 0), event.start)
        elif isinstance(event, OutOfRange):
            traits = history.traits_of(event.log)
            if traits.durable and traits.kept:
                yield Anomaly(
                    "vanished", f"{history.name(event.log)}: {event.reader} stood at {event.position}, now out of range"
                )
        elif isinstance(event, Bounds):
            reader, said_by = (event.reader, event.log), _said_by(event, history)
            yield from _gone_back(history, told.get(said_by), event, due.get(reader, 0))
            told[said_by] = event
            due[reader] = deleted.get(event.log, 0)  # the reader's next request is sent after that


def _said_by(event: Bounds, history: History) -> tuple[str, LogKey, int, int]:
    return event.reader, event.log, event.broker, event.life if history.replicated else 0


def _gone_back(history: History, before: Bounds | None, now: Bounds, due_start: int) -> Iterator[Anomaly]:
    name = history.name(now.log)
    if now.log_start > now.high_watermark:
        yield Anomaly("start-above-watermark", f"{name}: {now.log_start} > {now.high_watermark}")
    if not history.traits_of(now.log).durable:
        return
    if now.log_start < due_start:
        yield Anomaly("start-went-back", f"{name}: to {now.log_start}, {due_start} was answered")
    if before is None:
        return
    same_line = now.epoch == before.epoch or not history.replicated
    if same_line and now.high_watermark < before.high_watermark:
        yield Anomaly("watermark-went-back", f"{name}: from {before.high_watermark} to {now.high_watermark}")


def _starts(history: History) -> Iterator[Anomaly]:
    """A log starts where DeleteRecords said, and later only if retention may move the start."""
    allowed: dict[LogKey, int] = {}
    done: dict[LogKey, int] = {}
    for event in history.events:
        if isinstance(event, DeleteAsked):
            allowed[event.log] = max(allowed.get(event.log, 0), event.before)
        elif isinstance(event, DeleteDone):
            done[event.log] = max(done.get(event.log, 0), event.start)
        elif isinstance(event, Bounds | Scanned):
            start = event.log_start if isinstance(event, Bounds) else event.start
            name, traits = history.name(event.log), history.traits_of(event.log)
            asked, answered = allowed.get(event.log, 0), done.get(event.log, 0)
            if traits.retained and start > asked:
                yield Anomaly("deleted-too-much", f"{name} starts at {start}; asked for was {asked}")
            if isinstance(event, Scanned) and traits.durable and start < answered:
                yield Anomaly("deletion-undone", f"{name} starts at {start}; {answered} was answered")
