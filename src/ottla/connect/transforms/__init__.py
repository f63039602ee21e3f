"""Transformations of single records: all that Apache Kafka 4.3.1 has, by its class names, and one of Debezium."""

from __future__ import annotations

from typing import Final, Protocol

from ottla.connect.plugin import Plugin, by_class
from ottla.connect.records import ConnectRecord
from ottla.connect.transforms.cast import Cast
from ottla.connect.transforms.contents import InsertField, MaskField, SetSchemaMetadata
from ottla.connect.transforms.debezium import ExtractNewRecordState
from ottla.connect.transforms.fields import ExtractField, Flatten, HoistField, ReplaceField, ValueToKey
from ottla.connect.transforms.headers import DropHeaders, HeaderFrom, InsertHeader
from ottla.connect.transforms.routes import Filter, RegexRouter, TimestampRouter
from ottla.connect.transforms.sides import RecordSide, Sided
from ottla.connect.transforms.timestamps import TimestampConverter

_PACKAGE: Final = "org.apache.kafka.connect.transforms."


class Transformation(Protocol):
    """Makes one record of another, or drops it."""

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """The changed record, or None for one that is dropped; a `ConnectException` where it cannot be changed."""


def _of_side(kind: type[Sided], side: RecordSide) -> Plugin[Transformation]:
    name = f"{_PACKAGE}{kind.__name__}${side.value}"
    return Plugin("transformation", name, kind.OPTIONS, lambda given: kind(side, given))


_SIDED: Final[tuple[type[Sided], ...]] = (
    Cast, ExtractField, Flatten, HeaderFrom, HoistField, InsertField, MaskField, ReplaceField, SetSchemaMetadata,
    TimestampConverter,
)  # fmt: skip
TRANSFORMATIONS: Final[dict[str, Plugin[Transformation]]] = by_class(
    *(_of_side(kind, side) for kind in _SIDED for side in RecordSide),
    Plugin("transformation", _PACKAGE + "DropHeaders", DropHeaders.OPTIONS, DropHeaders),
    Plugin("transformation", _PACKAGE + "Filter", Filter.OPTIONS, Filter),
    Plugin("transformation", _PACKAGE + "InsertHeader", InsertHeader.OPTIONS, InsertHeader),
    Plugin("transformation", _PACKAGE + "RegexRouter", RegexRouter.OPTIONS, RegexRouter),
    Plugin("transformation", _PACKAGE + "TimestampRouter", TimestampRouter.OPTIONS, TimestampRouter),
    Plugin("transformation", _PACKAGE + "ValueToKey", ValueToKey.OPTIONS, ValueToKey),
    Plugin(
        "transformation",
        "io.debezium.transforms.ExtractNewRecordState",
        ExtractNewRecordState.OPTIONS,
        ExtractNewRecordState,
    ),
)
"""All transformations, by their Java class."""
