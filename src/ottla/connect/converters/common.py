"""The parts that converters have in common."""

from __future__ import annotations

from typing import Any, Protocol

from ottla.connect.checks import one_of
from ottla.connect.config_def import Importance, Option, Type
from ottla.connect.data import Schema
from ottla.connect.records import SchemaAndValue

CONVERTER_TYPE = Option(
    "converter.type", Type.STRING, importance=Importance.LOW, check=one_of("key", "value", "header"),
    doc="The part of records that the converter is for.",
)  # fmt: skip


class Converter(Protocol):
    """Makes bytes of values, and values of bytes."""

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """The bytes of a value; None for null."""

    def to_connect(self, topic: str, content: bytes | None) -> SchemaAndValue:
        """The value of bytes, with its schema."""
