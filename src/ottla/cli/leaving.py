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


def take_all(consumer: Consumer, runs: Sequence[tuple[TopicPartition, list[Record]]], take: Callable[[], None]) -> None:
    """Take the records of all runs at once; where that fails, go back to before them."""
    try:
        take()
    except BaseException:
        for place, records in reversed(runs):
            consumer.seek(place, records[0].offset)
        raise


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
