"""Prints values as lines, those of whole batches in one write: the way of `ottla consume` without other wishes."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.cli.leaving import take_all
from ottla.kernel.ids import TopicPartition

if TYPE_CHECKING:
    from ottla.client.blocking.runs import RunConsumer
    from ottla.client.model import ConsumedRecord
    from ottla.records.reader import Record

_DIM, _KEY, _END = b"\x1b[2m", b"\x1b[36m", b"\x1b[0m"
_WIDEST = 32
Runs = list[tuple[TopicPartition, "list[Record]"]]
_POLL_MS = 200


class Aligned:
    """Shows records on a terminal: place and key in columns as wide as those before, then the value."""

    def __init__(self) -> None:
        self._place = self._key = 0

    def show(self, record: ConsumedRecord) -> bytes:
        place = b"%d:%d" % (record.partition, record.offset)
        key = b"null" if record.key is None else record.key
        self._place = max(self._place, len(place))
        self._key = max(self._key, min(len(key), _WIDEST))
        value = b"null" if record.value is None else record.value
        head = _DIM + place.ljust(self._place) + _END + b"  " + _KEY + key.ljust(self._key) + _END
        return head + b"  " + value + b"\n"


class ValuesOut:
    """Reads until the ends, so many records, or a time without any."""

    def __init__(
        self, consumer: RunConsumer, ends: Mapping[TopicPartition, int], limit: int | None, timeout_ms: int | None
    ) -> None:
        """`ends`: the offsets at which to stop, if there are any."""
        self._consumer = consumer
        self._ends = ends
        self._left = limit
        self._timeout_ms = timeout_ms
        self._out = sys.stdout.buffer

    def read(self) -> None:
        last_s = time.monotonic()
        while not self._at_the_end():
            runs = self._consumer.poll_runs(_POLL_MS)
            take_all(self._consumer, runs, lambda runs=runs: self._print(self._wanted(runs)))  # type: ignore[misc]
            now_s = time.monotonic()
            if runs:
                last_s = now_s
            elif self._timeout_ms is not None and (now_s - last_s) * 1000 > self._timeout_ms:
                break

    def _at_the_end(self) -> bool:
        if self._left is not None and self._left <= 0:
            return True
        return bool(self._ends) and all(self._consumer.position(each) >= end for each, end in self._ends.items())

    def _wanted(self, runs: Runs) -> list[Record]:
        """The records before the ends, as many as are left; the position is set behind them."""
        wanted: list[Record] = []
        for place, records in runs:
            end = self._ends.get(place)
            found = records if end is None or records[-1].offset < end else [one for one in records if one.offset < end]
            if self._left is not None and len(wanted) + len(found) > self._left:
                rest = found[self._left - len(wanted) :]
                found = found[: self._left - len(wanted)]
                self._consumer.seek(place, rest[0].offset)
                wanted += found
                self._back_from(runs, place)
                break
            wanted += found
        return wanted

    def _back_from(self, runs: Runs, place: TopicPartition) -> None:
        """Go back to before the runs behind this one's place that nobody sees, but for its own partition."""
        begun = False
        behind: dict[TopicPartition, int] = {}
        for other, records in runs:
            begun = begun or other == place
            if begun and other != place:
                behind.setdefault(other, records[0].offset)
        for other, offset in behind.items():
            self._consumer.seek(other, offset)

    def _print(self, records: list[Record]) -> None:
        if records:
            self._out.write(b"\n".join([b"null" if one.value is None else one.value for one in records]) + b"\n")
            self._out.flush()
            if self._left is not None:
                self._left -= len(records)
