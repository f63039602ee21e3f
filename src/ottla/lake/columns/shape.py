"""The properties of a lake that every load must share, so that all of it can be read as one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.lake.columns.layout import Layout
from ottla.lake.columns.steps import NO_STEPS, RowSteps
from ottla.stores import LakeRefused, catalog_url

PLACEHOLDER = "__debezium_unavailable_value"
LATER = {"flatten": "", "where": "", "unavailable": PLACEHOLDER, "transforms": ""}
"""Properties that lakes of earlier versions do not name, with their values for those."""


@dataclass(frozen=True, slots=True)
class LakeShape:
    """The form of a lake's files: how they are made, laid out and shown."""

    format: str = "parquet"
    values: str = "bytes"
    """The kind of the values; see values.py."""
    layout: Layout = field(default_factory=Layout)
    catalog: str = ""
    namespace: str = "ottla"
    key: tuple[str, ...] = ()
    debezium: bool = False
    """True if values are Debezium's change events, which become the rows that they tell of."""
    unavailable: str = PLACEHOLDER
    """The text that Debezium sends in place of a value that did not change and was not logged."""
    flatten: str = ""
    """The separator of an object's name and its member's, as columns; empty where objects stay objects."""
    where: str = ""
    """The expression that says which rows are loaded; empty for all."""
    steps: RowSteps = NO_STEPS
    """The steps from records to rows; of a lake that was read only their text."""

    @property
    def columns(self) -> bool:
        """True if values become columns."""
        return self.values != "bytes"

    @property
    def taken_apart(self) -> str:
        """The separator of `flatten`, for columns of values; change events are flattened once they are rows."""
        return "" if self.debezium else self.flatten

    @property
    def whole_rows(self) -> bool:
        """True if files hold the fields that divide the lake, too: Iceberg reads them there."""
        return self.format == "iceberg"

    def to_json(self) -> dict[str, object]:
        return {
            "table_format": self.format,
            "values": self.values,
            "partition_by": list(self.layout.partition_by),
            "time_zone": self.layout.time_zone,
            "event_time": self.layout.event_time,
            "catalog": self.catalog,
            "namespace": self.namespace,
            "key": list(self.key),
            "debezium": self.debezium,
            "unavailable": self.unavailable,
            "flatten": self.flatten,
            "where": self.where,
            "transforms": self.steps.text,
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, object]) -> LakeShape:
        try:
            layout = Layout(_texts(stored["partition_by"]), str(stored["time_zone"]), str(stored["event_time"]))
            return cls(
                str(stored["table_format"]),
                str(stored["values"]),
                layout,
                str(stored["catalog"]),
                str(stored["namespace"]),
                _texts(stored["key"]),
                stored["debezium"] is True,
                str(stored.get("unavailable", PLACEHOLDER)),
                str(stored.get("flatten", "")),
                str(stored.get("where", "")),
                RowSteps(str(stored.get("transforms", ""))),
            )
        except (KeyError, TypeError) as fault:
            raise LakeRefused(f"lake.json is damaged: {fault}") from fault


def difference(stored: Mapping[str, object], described: Mapping[str, object]) -> str:
    """The rest of a sentence that says what a lake and a load disagree on; empty where they agree."""
    for name, value in described.items():
        before = stored.get(name, LATER.get(name))
        if name == "catalog" and before:
            before = catalog_url(str(before))
        if before != value:
            words = name.replace("_", " ")
            return f"was made {_shown(words, before)}, and this load comes {_shown(words, value)}"
    return ""


def _shown(words: str, value: object) -> str:
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return f"with {words} {text}" if value not in ("", None, False, []) else f"without {words}"


def _texts(stored: object) -> tuple[str, ...]:
    if not isinstance(stored, list):
        raise TypeError(f"expected a list, got {stored!r}")
    return tuple(map(str, stored))
