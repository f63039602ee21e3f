"""Predicates: conditions on records under which a transformation is applied."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from ottla.connect.checks import all_of, non_empty_text, understood
from ottla.connect.config_def import ConfigDef, Option, Type
from ottla.connect.java.regex import compiled
from ottla.connect.plugin import Plugin, by_class
from ottla.connect.records import ConnectRecord

_PACKAGE: Final = "org.apache.kafka.connect.transforms.predicates."


class Predicate(Protocol):
    """A condition on a record."""

    def test(self, record: ConnectRecord) -> bool:
        """True if it holds."""


class HasHeaderKey:
    """The record has a header of this name."""

    OPTIONS = ConfigDef(Option("name", Type.STRING, check=non_empty_text, doc="The header's name."))

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._name = self.OPTIONS.parse(given)["name"]

    def test(self, record: ConnectRecord) -> bool:
        """True if one of the headers has the name."""
        return any(header.key == self._name for header in record.headers)


class RecordIsTombstone:
    """The record has no value."""

    OPTIONS = ConfigDef()

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.OPTIONS.parse(given)

    def test(self, record: ConnectRecord) -> bool:
        """True if the value is null."""
        return record.value is None


class TopicNameMatches:
    """The record's topic matches a Java regular expression as a whole."""

    OPTIONS = ConfigDef(
        Option(
            "pattern",
            Type.STRING,
            check=all_of(non_empty_text, understood(compiled, "Invalid regex: ")),
            doc="A Java regular expression for the whole name of the topic.",
        )
    )

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._pattern = compiled(self.OPTIONS.parse(given)["pattern"])

    def test(self, record: ConnectRecord) -> bool:
        """True if the topic's name matches."""
        return self._pattern.fullmatch(record.topic) is not None


PREDICATES: Final[dict[str, Plugin[Predicate]]] = by_class(
    Plugin("predicate", _PACKAGE + "HasHeaderKey", HasHeaderKey.OPTIONS, HasHeaderKey),
    Plugin("predicate", _PACKAGE + "RecordIsTombstone", RecordIsTombstone.OPTIONS, RecordIsTombstone),
    Plugin("predicate", _PACKAGE + "TopicNameMatches", TopicNameMatches.OPTIONS, TopicNameMatches),
)
"""All predicates, by their Java class."""
