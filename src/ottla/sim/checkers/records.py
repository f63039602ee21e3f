"""The first judge: every value is at its acknowledged offset, once."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.sim.checkers.history import (
    Acknowledged,
    Anomaly,
    BatchRefused,
    History,
    LogKey,
    Polled,
    Scanned,
    Sent,
    TopicDeleted,
    Unreadable,
)

_ALL = -1


class _Log:
    """The events of one log."""

    def __init__(self) -> None:
        self.seen: dict[int, list[bytes]] = {}
        """By offset, every different value that a reader found there."""
        self.acknowledged: dict[bytes, tuple[int, int]] = {}
        """From a value to (offset, acks)."""
        self.scan: Scanned | None = None

    def note(self, offset: int, value: bytes) -> None:
        values = self.seen.setdefault(offset, [])
        if value not in values:
            values.append(value)


class _Known:
    """The history, sorted by log."""

    def __init__(self, history: History) -> None:
        self.logs: dict[LogKey, _Log] = {}
        self.sent_to: dict[bytes, LogKey] = {}
        self.refused: dict[bytes, int] = {}
        self.deleted: dict[str, None] = {}
        batches: dict[tuple[str, int], Sent] = {}
        for event in history.events:
            if isinstance(event, Sent):
                batches[event.producer, event.batch] = event
                for value in event.values:
                    self.sent_to[value] = event.log
            elif isinstance(event, Acknowledged):
                sent = batches[event.producer, event.batch]
                for place, value in enumerate(sent.values):
                    self._log(event.log).acknowledged[value] = (event.base_offset + place, sent.acks)
            elif isinstance(event, BatchRefused):
                self.refused |= dict.fromkeys(batches[event.producer, event.batch].values, event.error)
            elif isinstance(event, Polled | Scanned):
                log = self._log(event.log)
                for offset, value in event.records:
                    log.note(offset, value)
                if isinstance(event, Scanned):
                    log.scan = event
            elif isinstance(event, TopicDeleted):
                self.deleted[event.topic_id] = None

    def _log(self, key: LogKey) -> _Log:
        return self.logs.setdefault(key, _Log())


def check_records(history: History) -> Iterator[Anomaly]:
    """Anomalies of records."""
    for event in history.events:
        if isinstance(event, Unreadable):
            yield Anomaly("unreadable", f"{history.name(event.log)} for {event.reader}: {event.why}")
    known = _Known(history)
    for key, log in known.logs.items():
        name = history.name(key)
        yield from _strangers(known, key, log, name)
        if history.traits_of(key).durable:
            yield from _misplaced(log, name)
            yield from _lost(log, name)


def _strangers(known: _Known, key: LogKey, log: _Log, name: str) -> Iterator[Anomaly]:
    for offset, values in sorted(log.seen.items()):
        for value in values:
            if value in known.refused:
                yield Anomaly("aborted-read", f"{name}@{offset}: {_short(value)} was refused ({known.refused[value]})")
            elif known.sent_to.get(value) != key:
                yield Anomaly("phantom", f"{name}@{offset}: {_short(value)} was never sent there")


def _misplaced(log: _Log, name: str) -> Iterator[Anomaly]:
    offsets_of: dict[bytes, list[int]] = {}
    for offset, values in sorted(log.seen.items()):
        if len(values) > 1:
            yield Anomaly("inconsistent-offset", f"{name}@{offset}: {' and '.join(map(_short, values))}")
        for value in values:
            offsets_of.setdefault(value, []).append(offset)
    for value, offsets in offsets_of.items():
        if len(offsets) > 1:
            yield Anomaly("duplicate", f"{name}: {_short(value)} at {offsets}")
        acknowledged = log.acknowledged.get(value)
        if acknowledged is not None and acknowledged[0] not in offsets:
            yield Anomaly("moved", f"{name}: {_short(value)} acknowledged at {acknowledged[0]}, read at {offsets}")


def _lost(log: _Log, name: str) -> Iterator[Anomaly]:
    """Records that the last scan should have found and did not; those below its start are left to order.py."""
    scan = log.scan
    if scan is None:
        return
    there = dict(scan.records)
    for value, (offset, acks) in log.acknowledged.items():
        if acks == _ALL and offset >= scan.start and there.get(offset) != value:
            yield Anomaly("lost-write", f"{name}@{offset}: {_short(value)} was acknowledged, and is not there")
    for offset, values in sorted(log.seen.items()):
        if offset >= scan.start and there.get(offset) not in values:
            yield Anomaly("lost-read", f"{name}@{offset}: {_short(values[0])} was read once, and is not there")


def _short(value: bytes) -> str:
    return value[:24].rstrip(b".").decode("ascii", "replace")
