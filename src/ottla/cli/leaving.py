"""Ends of commands that read or write records: what was read is sent, groups are left, and do not pass records that
nobody saw.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from ottla.kernel.ids import TopicPartition

if TYPE_CHECKING:
    from ottla.client.blocking.consumer import Consumer
    from ottla.client.model import ConsumedRecord
    from ottla.records.reader import Record

Runs = Sequence[tuple[TopicPartition, "list[Record]"]]

_ENDING = (signal.SIGTERM, signal.SIGHUP)


class Signalled(KeyboardInterrupt):
    """A signal came that means the same as Ctrl-C."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


@contextmanager
def interrupted_by_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP raise in here as Ctrl-C does, so what is open is closed; a signal that is ignored stays so."""
    is_main = threading.current_thread() is threading.main_thread()  # others cannot take signals
    taken = [number for number in _ENDING if is_main and signal.getsignal(number) is signal.SIG_DFL]
    for number in taken:
        signal.signal(number, _raise)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


def _raise(number: int, _frame: FrameType | None) -> NoReturn:
    raise Signalled(number)


def take_runs(consumer: Consumer, runs: Runs, take: Callable[[bytes], object], done: Callable[[], None]) -> None:
    """Take the values of all runs as lines, run by run, then be done; where that ends early, go back as `take_each`.

    Where the lines cannot be written, nobody has seen any of them.
    """
    taken = 0
    try:
        for _, records in runs:
            taken += 1
            take(b"\n".join([b"null" if record.value is None else record.value for record in records]) + b"\n")
        done()
    except OSError:
        taken = 0
        raise
    finally:
        for place, records in reversed(runs[taken:]):
            consumer.seek(place, records[0].offset)


def take_each(
    consumer: Consumer,
    polled: Sequence[ConsumedRecord],
    take: Callable[[ConsumedRecord], None],
    made: Callable[[Sequence[ConsumedRecord]], Sequence[ConsumedRecord]] | None = None,
) -> None:
    """Take the records one by one; where that ends early, go back to before those that were not taken.

    Closing a consumer commits where it stands. `made` makes of all records those that are taken.
    """
    taken = 0
    try:
        for record in polled if made is None else made(polled):
            taken += 1
            take(record)
    finally:
        first: dict[TopicPartition, int] = {}
        for record in polled[taken:]:
            first.setdefault(TopicPartition(record.topic, record.partition), record.offset)
        for place, offset in first.items():
            consumer.seek(place, offset)
