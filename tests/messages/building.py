"""Hypothesis strategies that build any message class for a version, from its declaration."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

import ottla.messages
from ottla.schema.message import Field, Message, schema_of
from ottla.schema.types import Array, Blob, Fixed, Text

STRINGS = st.one_of(
    st.text(max_size=6),
    st.sampled_from(["", "topic-1", "ä" * 63, "x" * 127, "x" * 128, "日本" * 70]),
)
BLOBS = st.one_of(st.binary(max_size=8), st.sampled_from([b"", bytes(126), bytes(127), b"\xff" * 300]))


def whole_messages() -> list[type[Message]]:
    """Every message class, without the structs inside them."""
    found: dict[type[Message], None] = {}
    inside: set[type] = set()
    for module in pkgutil.iter_modules(ottla.messages.__path__):
        for cls in vars(importlib.import_module(f"ottla.messages.{module.name}")).values():
            if isinstance(cls, type) and issubclass(cls, Message) and cls is not Message:
                found[cls] = None
                inside |= {each.struct for each in schema_of(cls).fields if each.struct is not None}
    return [cls for cls in found if cls not in inside]


def each_version() -> Iterator[tuple[type[Message], int]]:
    """Every message class with every version that it has."""
    for cls in whole_messages():
        versions = schema_of(cls).versions
        assert versions is not None
        for version in range(versions[0], versions[1] + 1):
            yield cls, version


def version_id(value: object) -> str:
    return value.__name__ if isinstance(value, type) else f"v{value}"


def messages(cls: type[Message], version: int) -> SearchStrategy[Message]:
    """Messages of the version; fields that it does not have keep their default."""
    present = [each for each in schema_of(cls).fields if each.is_in(version)]
    return st.builds(cls, **{each.name: field_values(each, version) for each in present})


def field_values(each: Field, version: int) -> SearchStrategy[object]:
    values = values_of(each.kind, version)
    return st.one_of(st.none(), values) if each.is_nullable(version) else values


def values_of(kind: object, version: int) -> SearchStrategy[object]:
    if isinstance(kind, Fixed):
        return fixed_values(kind)
    if isinstance(kind, Text):
        return STRINGS
    if isinstance(kind, Blob):
        return BLOBS
    if isinstance(kind, Array):
        return st.lists(values_of(kind.element, version), max_size=2)
    assert isinstance(kind, type)
    return messages(kind, version)


def fixed_values(kind: Fixed[object]) -> SearchStrategy[object]:
    if kind.code == "?":
        return st.booleans()
    if kind.code == "16s":
        return st.one_of(st.just(bytes(16)), st.binary(min_size=16, max_size=16))
    if kind.code == "d":
        return st.floats(allow_nan=False)
    bits = kind.size * 8
    if kind.code.isupper():
        return st.integers(0, (1 << bits) - 1)
    return st.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
