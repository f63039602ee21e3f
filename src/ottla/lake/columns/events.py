"""The parts of Debezium's change events as columns: `op`, `before` and `after`, also below `payload`. Pure."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from ottla.lake.columns import exact
from ottla.lake.columns.types import Misfit, text_of

PAYLOAD = "payload"
OBJECTS = ("before", "after")
Path = tuple[str, ...]


def check_event(columns: pa.Schema) -> None:
    """Misfit where a part of an event has another type than its own: it would keep all later events out."""
    for place, fields in _places(columns):
        for field in fields:
            if pa.types.is_null(field.type):
                continue
            wrong = field.name in OBJECTS and not pa.types.is_struct(field.type)
            if wrong or (field.name == "op" and not pa.types.is_string(field.type)):
                wanted = "text" if field.name == "op" else "an object"
                name = ".".join((*place, field.name))
                raise Misfit(f"field {name}: {text_of(field.type)}, and in a change event it is {wanted}")
    if (kind := exact.type_at(columns, (PAYLOAD,))) is not None and not pa.types.is_struct(kind):
        raise Misfit(f"field {PAYLOAD}: {text_of(kind)}, and around a change event it is an object")


def event_states(columns: pa.Schema) -> Iterator[pa.Schema]:
    """The fields of each state inside events of these columns, with their notes."""
    for place, fields in _places(columns):
        for field in fields:
            if field.name in OBJECTS and pa.types.is_struct(field.type):
                yield exact.with_notes(pa.schema(list(field.type)), exact.below(columns, (*place, field.name)))


def _places(columns: pa.Schema) -> Iterator[tuple[Path, list[pa.Field]]]:
    """The fields among which an event's parts may lie: the value's own, and those below `payload`."""
    yield (), list(columns)
    kind = exact.type_at(columns, (PAYLOAD,))
    if kind is not None and pa.types.is_struct(kind):
        yield (PAYLOAD,), list(kind)
