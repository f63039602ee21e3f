"""Prints values as lines, those of whole batches in one write: the way of `ottla consume` without other wishes."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, BinaryIO

from ottla.cli.leaving import Runs, take_runs
from ottla.kernel.ids import TopicPartition

if TYPE_CHECKING:
    from ottla.client.blocking.runs import RunConsumer
    from ottla.client.model import ConsumedRecord
    from ottla.records.reader import Record

_DIM, _KEY, _END = b"\x1b[2m", b"\x1b[36m", b"\x1b[0m"
_WIDEST = 32
_POLL_MS = 200
_BUFFER_BYTES = 4 << 20


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

    def read(self) -> None:
        last_s = time.monotonic()
        with _whole_output() as out:
            while not self._at_the_end():
                polled = self._consumer.poll_runs(_POLL_MS)
                take_runs(self._consumer, self._wanted(polled), out.write, out.flush)
                now_s = time.monotonic()
                if polled:
                    last_s = now_s
                elif self._timeout_ms is not None and (now_s - last_s) * 1000 > self._timeout_ms:
                    break

    def _at_the_end(self) -> bool:
        if self._left is not None and self._left <= 0:
            return True
        return bool(self._ends) and all(self._consumer.position(each) >= end for each, end in self._ends.items())

    def _wanted(self, polled: Runs) -> Runs:
        """The records before the ends, as many as are left; where some are not wanted, the position is before them."""
        wanted: list[tuple[TopicPartition, list[Record]]] = []
        passed: dict[TopicPartition, int] = {}
        for place, records in polled:
            end = self._ends.get(place)
            found = records if end is None or records[-1].offset < end else [one for one in records if one.offset < end]
            if self._left is not None:
                if len(found) > self._left:
                    passed.setdefault(place, found[self._left].offset)
                    found = found[: self._left]
                self._left -= len(found)
            if found:
                wanted.append((place, found))
        for place, offset in passed.items():
            self._consumer.seek(place, offset)
        return wanted


@contextmanager
def _whole_output() -> Iterator[BinaryIO]:
    """Standard output behind a buffer that holds a batch's lines whole.

    A signal in the middle of a write leaves the rest in the buffer, and it is written at the end.
    """
    raw = getattr(sys.stdout.buffer, "raw", None)
    if raw is None:
        yield sys.stdout.buffer
        return
    sys.stdout.flush()
    out = io.BufferedWriter(raw, _BUFFER_BYTES)
    try:
        yield out
    except OSError:
        raise
    except BaseException:
        with suppress(OSError):
            out.flush()
        raise
    finally:
        with suppress(OSError):
            out.detach()  # else the buffer would close the stream with itself
