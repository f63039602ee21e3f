"""A processor whose function takes the columns of many records at once, or of one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.streams.column import ValueColumn
from ottla.streams.values import Place, Record

if TYPE_CHECKING:
    from ottla.streams.engine.task import Context

_UNKNOWN = object()


@dataclass(slots=True)
class BatchRows:
    """Keys and values of some records of a batch, and the places of these in it."""

    at: ValueColumn
    keys: ValueColumn
    values: ValueColumn

    def chosen(self, mask: Any) -> BatchRows:
        """The rows where an array of truth has true."""
        return BatchRows(self.at.chosen(mask), self.keys.chosen(mask), self.values.chosen(mask))

    def pairs(self, count: int) -> list[Any]:
        """A key and a value for each of `count` records of the batch, or None where it has no row."""
        made: list[Any] = [None] * count
        for at, key, value in zip(self.at.listed(), self.keys.listed(), self.values.listed(), strict=True):
            made[at] = key, value
        return made


Apply = Callable[[BatchRows], BatchRows]


class Together:
    """Sends on what the function makes of each record, in the order of the records."""

    def __init__(self, apply: Apply) -> None:
        self.apply = apply
        self._made: dict[int, Any] = {}

    def init(self, context: Context) -> None:
        """Take the way to the nodes behind."""
        self._context = context

    def expect(self, places: Sequence[Place], made: Sequence[Any]) -> None:
        """Take what was made of records that will come; their places are kept until then."""
        self._made = dict(zip(map(id, places), made, strict=True))

    def forget(self) -> None:
        """Forget what was made of records that never came here."""
        self._made = {}

    def process(self, record: Record) -> None:
        """Send on what was made of the record, or make it now."""
        made: Any = self._made.pop(id(self._context.place), _UNKNOWN) if self._made else _UNKNOWN
        if made is _UNKNOWN:
            made = self.apply(
                BatchRows(ValueColumn((0,)), ValueColumn((record.key,)), ValueColumn((record.value,)))
            ).pairs(1)[0]
        if made is not None:
            self._context.forward(Record(made[0], made[1], record.timestamp, record.headers))
