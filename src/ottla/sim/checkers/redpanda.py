"""The rules of Redpanda's chaos tests for writers and readers (`reads_writes`), over the same history.

Jepsen's rules compare values; these compare offsets with the highest offset known when each write began.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.sim.checkers.history import (
    Acknowledged,
    Anomaly,
    BatchRefused,
    DeleteAsked,
    History,
    LogKey,
    OutOfRange,
    Polled,
    Scanned,
    Sent,
)

_ALL = -1
Found = Iterator[tuple[str, str]]


class _Write:
    """A write: sending, then ok, failed, or timed out."""

    __slots__ = ("acks", "failed", "known", "offset")

    def __init__(self, known: int, acks: int) -> None:
        self.known = known
        """The highest offset that any write had been given when this one began."""
        self.acks = acks
        self.offset = -1
        self.failed = False


class _Log:
    def __init__(self) -> None:
        self.writes: dict[bytes, _Write] = {}
        self.taken: dict[int, bytes] = {}
        self.known = -1
        self.read: dict[int, bytes] = {}
        self.fronts: dict[str, int] = {}
        self.gone_below = 0

    # the events are in the order of time

    def sent(self, event: Sent) -> None:
        for value in event.values:
            self.writes[value] = _Write(self.known, event.acks)

    def acknowledged(self, sent: Sent, base_offset: int) -> Found:
        if sent.acks != _ALL:
            return
        for place, value in enumerate(sent.values):
            write, offset = self.writes[value], base_offset + place
            write.offset = offset
            if self.taken.setdefault(offset, value) != value:
                yield "offset-taken", f"{offset} was given to {_short(self.taken[offset])} and to {_short(value)}"
            if offset <= write.known:
                yield "out-of-order", f"{_short(value)} got {offset}; {write.known} was known when it began"
        self.known = max(self.known, base_offset + len(sent.values) - 1)

    def polled(self, reader: str, records: tuple[tuple[int, bytes], ...]) -> Found:
        for offset, value in records:
            yield from self._message(reader, offset, value)
            if offset <= self.fronts.get(reader, -1):
                yield "front-went-back", f"{reader} reads {offset} after {self.fronts[reader]}"
            self.fronts[reader] = offset

    def _message(self, reader: str, offset: int, value: bytes) -> Found:
        if self.read.setdefault(offset, value) != value:
            yield "readers-differ", f"{_short(value)} at {offset}, where another read {_short(self.read[offset])}"
        write = self.writes.get(value)
        if write is None:
            yield "phantom", f"{reader} reads {_short(value)} at {offset}: nobody wrote it here"
        elif write.failed:
            yield "failed-write-read", f"{reader} reads {_short(value)} at {offset}: it was refused for good"
        elif write.offset >= 0:
            if write.offset != offset:
                yield "misplaced", f"{_short(value)} was written at {write.offset}, and read at {offset}"
        elif write.acks == _ALL and offset <= write.known:
            yield "late-write-in-the-past", f"{_short(value)} came to {offset}; {write.known} was known when it began"

    def scanned(self, scan: Scanned) -> Found:
        yield from self.polled("the last scan", scan.records)
        there = dict(scan.records)
        for value, write in self.writes.items():
            if write.offset >= max(scan.start, self.gone_below) and there.get(write.offset) != value:
                yield "lost", f"{_short(value)} was written at {write.offset}, and is not there"


def check_redpanda(history: History) -> Iterator[Anomaly]:
    """Anomalies; each kind begins with `redpanda:`."""
    logs: dict[LogKey, _Log] = {}
    batches: dict[tuple[str, int], Sent] = {}
    for event in history.events:
        if not isinstance(event, Sent | Acknowledged | BatchRefused | Polled | Scanned | DeleteAsked | OutOfRange):
            continue
        if not history.traits_of(event.log).durable:
            continue
        log = logs.setdefault(event.log, _Log())
        found: Found = iter(())
        if isinstance(event, Sent):
            batches[event.producer, event.batch] = event
            log.sent(event)
        elif isinstance(event, Acknowledged):
            found = log.acknowledged(batches[event.producer, event.batch], event.base_offset)
        elif isinstance(event, BatchRefused):
            for value in batches[event.producer, event.batch].values:
                log.writes[value].failed = True
        elif isinstance(event, Polled):
            found = log.polled(event.reader, event.records)
        elif isinstance(event, Scanned):
            found = log.scanned(event)
        elif isinstance(event, DeleteAsked):
            log.gone_below = max(log.gone_below, event.before)
        else:
            log.fronts.pop(event.reader, None)
        for kind, what in found:
            yield Anomaly(f"redpanda:{kind}", f"{history.name(event.log)}: {what}")


def _short(value: bytes) -> str:
    return value[:24].rstrip(b".").decode("ascii", "replace")
