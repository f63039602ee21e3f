"""Processors that look at one record at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ottla.streams.engine.task import Context
from ottla.streams.values import Record


class Stateless:
    """Sends on the records that a function makes of each one."""

    def __init__(self, make: Callable[[Record], Iterable[Record]]) -> None:
        self._make = make

    def init(self, context: Context) -> None:
        """Take the way to the nodes behind."""
        self._context = context

    def process(self, record: Record) -> None:
        """Send on the records of one record."""
        for made in self._make(record):
            self._context.forward(made)


def pass_on() -> Stateless:
    """A processor that sends on every record as it is."""
    return Stateless(lambda record: (record,))


def with_key() -> Stateless:
    """A processor that sends on the records with a key."""
    return Stateless(lambda record: () if record.key is None else (record,))


class Branches:
    """Sends each record to the first branch whose condition holds."""

    def __init__(self, conditions: Sequence[tuple[str, Callable[[Any, Any], bool] | None]]) -> None:
        self._conditions = conditions

    def init(self, context: Context) -> None:
        """Take the way to the nodes behind."""
        self._context = context

    def process(self, record: Record) -> None:
        """Send the record to one branch, or to none."""
        for name, holds in self._conditions:
            if holds is None or holds(record.key, record.value):
                self._context.forward(record, to=name)
                return


class FixedKey:
    """Runs a user's processor whose results keep the key of the record that is being processed."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def init(self, context: Context) -> None:
        """Hand the user's processor a context that checks keys."""
        self._key: Any = None
        forward = context.forward

        def checked(record: Record, *, to: str | None = None) -> None:
            if record.key != self._key:
                raise ValueError(f"process_values() keeps the key {self._key!r}: use process() to send {record.key!r}")
            forward(record, to=to)

        context.forward = checked  # type: ignore[method-assign]
        self._inner.init(context)

    def process(self, record: Record) -> None:
        """Process one record."""
        self._key = record.key
        self._inner.process(record)
