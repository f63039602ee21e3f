"""The rules of Jepsen's `kafka` workload, by the definitions of its checker, over the same history as the other judges.

Operations are sends (one per batch) and polls (one per answer); offsets serve only to learn the order of the values in
a log. Logs with transactions are left to transactions.py, so anomalies that only they can have (a read of one's own
uncommitted records, cycles of more than one read) cannot occur here. Logs that may lose records after a read are left
out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

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

ALLOWED = frozenset({"int-send-skip"})
"""Anomalies against which Kafka promises nothing; Jepsen's checker allows them too."""
_ALL = -1


class _Poll(NamedTuple):
    process: str
    values: tuple[bytes, ...]


class _Log:
    """One key of the workload."""

    def __init__(self) -> None:
        self.at: dict[int, dict[bytes, None]] = {}
        """By offset, the values that were reported there."""
        self.sends: list[Sent] = []
        self.ok: dict[bytes, None] = {}
        """Values whose send was acknowledged with acks=all."""
        self.failed: dict[bytes, None] = {}
        self.early: list[bytes] = []
        """Values that were polled before they were sent."""
        self.read: dict[bytes, None] = {}
        self.sent: dict[bytes, None] = {}
        self.polls: list[_Poll | OutOfRange] = []
        self.scan: Scanned | None = None
        self.may_be_gone = 0
        """The offset below which records may have been deleted by DeleteRecords."""
        self.index_of: dict[bytes, list[int]] = {}
        self.offset_at: list[int] = []

    def say(self, offset: int, value: bytes) -> None:
        self.at.setdefault(offset, {})[value] = None

    def order(self) -> None:
        """The version order: the first value of each offset, gaps closed."""
        self.offset_at = sorted(self.at)
        for index, offset in enumerate(self.offset_at):
            for value in self.at[offset]:
                self.index_of.setdefault(value, []).append(index)

    def delta(self, before: bytes, after: bytes) -> int:
        """The distance between the places of two values; 1 if it is not known."""
        if before not in self.index_of or after not in self.index_of:
            return 1
        return self.index_of[after][0] - self.index_of[before][0]

    def deleted_between(self, before: bytes, after: bytes) -> bool:
        """True if all records between the two may have been deleted."""
        skipped = range(self.index_of[before][-1] + 1, self.index_of[after][0])
        return all(self.offset_at[index] < self.may_be_gone for index in skipped)


def check_jepsen(history: History) -> Iterator[Anomaly]:
    """Anomalies, all but those allowed; each kind begins with `jepsen:`."""
    for key, log in _logs(history).items():
        log.order()
        retained = history.traits_of(key).retained
        for kind, what in _found(log, retained=retained):
            if kind not in ALLOWED:
                yield Anomaly(f"jepsen:{kind}", f"{history.name(key)}: {what}")


def _logs(history: History) -> dict[LogKey, _Log]:
    logs: dict[LogKey, _Log] = {}
    batches: dict[tuple[str, int], Sent] = {}
    for event in history.events:
        if isinstance(event, Sent):
            batches[event.producer, event.batch] = event
        log_key = getattr(event, "log", None)
        if log_key is None or not history.traits_of(log_key).durable:
            continue
        log = logs.setdefault(log_key, _Log())
        if isinstance(event, Sent):
            log.sends.append(event)
            log.sent |= dict.fromkeys(event.values)
        elif isinstance(event, Acknowledged):
            _acknowledged(log, batches[event.producer, event.batch], event)
        elif isinstance(event, BatchRefused):
            log.failed |= dict.fromkeys(batches[event.producer, event.batch].values)
        elif isinstance(event, Polled | Scanned):
            _polled(log, event)
        elif isinstance(event, OutOfRange):
            log.polls.append(event)
        elif isinstance(event, DeleteAsked):
            log.may_be_gone = max(log.may_be_gone, event.before)
    return logs


def _acknowledged(log: _Log, sent: Sent, event: Acknowledged) -> None:
    if sent.acks == _ALL:  # an acks=0 or acks=1 send may be lost
        log.ok |= dict.fromkeys(sent.values)
        for place, value in enumerate(sent.values):
            log.say(event.base_offset + place, value)


def _polled(log: _Log, event: Polled | Scanned) -> None:
    for offset, value in event.records:
        log.say(offset, value)
        log.read[value] = None
        if value not in log.sent:
            log.early.append(value)
    process = event.reader if isinstance(event, Polled) else "the last scan"
    log.polls.append(_Poll(process, tuple(value for _, value in event.records)))
    if isinstance(event, Scanned):
        log.scan = event


def _found(log: _Log, *, retained: bool) -> Iterator[tuple[str, str]]:
    yield from _places(log)
    yield from _unread(log)
    yield from _sends(log)
    yield from _polls(log, retained=retained)


def _places(log: _Log) -> Iterator[tuple[str, str]]:
    for offset, values in sorted(log.at.items()):
        if len(values) > 1:
            yield "inconsistent-offsets", f"{len(values)} values at {offset}: {', '.join(map(_short, values))}"
    for value, indexes in log.index_of.items():
        if len(indexes) > 1:
            yield "duplicate", f"{_short(value)} at {[log.offset_at[index] for index in indexes]}"
    for value in log.read:
        if value in log.failed:
            yield "G1a", f"{_short(value)} was read, and its send had failed"
    for value in log.early:
        if value in log.sent:
            yield "G1c", f"{_short(value)} was read before it was sent"


def _unread(log: _Log) -> Iterator[tuple[str, str]]:
    """Values that were acknowledged and not read; records below the start of the last scan may be gone by right."""
    start = log.scan.start if log.scan is not None else 0
    bound = max((log.index_of[value][0] for value in log.read), default=-1)
    for value in log.ok:
        indexes = log.index_of[value]
        if value in log.read or log.offset_at[indexes[-1]] < max(start, log.may_be_gone):
            continue
        if indexes[-1] <= bound:
            yield "lost-write", f"{_short(value)} was acknowledged; nobody read it, though what follows it"
        if log.scan is not None:
            yield "unseen", f"{_short(value)} was acknowledged, and never read to the end"


def _sends(log: _Log) -> Iterator[tuple[str, str]]:
    last: dict[str, bytes] = {}
    for sent in log.sends:
        for before, after in zip(sent.values, sent.values[1:], strict=False):
            delta = log.delta(before, after)
            if delta > 1:
                yield "int-send-skip", f"{_short(before)} and {_short(after)} are not neighbours"
            elif delta < 1:
                yield "int-nonmonotonic-send", f"{_short(after)} does not lie behind {_short(before)}"
        if not sent.idempotent or any(value in log.failed for value in sent.values):
            continue
        if sent.producer in last and log.delta(last[sent.producer], sent.values[0]) < 1:
            yield "nonmonotonic-send", f"{_short(sent.values[0])} lies before {_short(last[sent.producer])}"
        last[sent.producer] = sent.values[-1]


def _polls(log: _Log, *, retained: bool) -> Iterator[tuple[str, str]]:
    last: dict[str, bytes] = {}
    for poll in log.polls:
        if isinstance(poll, OutOfRange):
            last.pop(poll.reader, None)
            continue
        for before, after in zip(poll.values, poll.values[1:], strict=False):
            yield from _step("int-", log, before, after)
        if poll.values and poll.process in last:
            before, after = last[poll.process], poll.values[0]
            if log.delta(before, after) <= 1 or (retained and not log.deleted_between(before, after)):
                yield from _step("", log, before, after)
        if poll.values:
            last[poll.process] = poll.values[-1]


def _step(prefix: str, log: _Log, before: bytes, after: bytes) -> Iterator[tuple[str, str]]:
    delta = log.delta(before, after)
    if delta > 1:
        yield f"{prefix}poll-skip", f"{delta - 1} values between {_short(before)} and {_short(after)}"
    elif delta < 1:
        yield f"{prefix}nonmonotonic-poll", f"{_short(after)} after {_short(before)}"


def _short(value: bytes) -> str:
    return value[:24].rstrip(b".").decode("ascii", "replace")
