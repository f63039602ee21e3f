"""Transformations that send records to other topics, or nowhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.connect.checks import understood
from ottla.connect.config_def import ConfigDef, Importance, Option, Type
from ottla.connect.errors import DataException
from ottla.connect.java.dates import DatePattern
from ottla.connect.java.regex import compiled, replacement
from ottla.connect.records import ConnectRecord

_HIGH = Importance.HIGH


class Filter:
    """Drops every record that it sees; a predicate says which."""

    OPTIONS = ConfigDef()

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.OPTIONS.parse(given)

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """Nothing."""
        return None


class RegexRouter:
    """Renames the topic where a regular expression matches the whole name."""

    OPTIONS = ConfigDef(
        Option("regex", Type.STRING, importance=_HIGH, check=understood(compiled, "Invalid regex: "),
               doc="A Java regular expression for the whole name of the topic."),
        Option("replacement", Type.STRING, importance=_HIGH, doc="The new name; $1 and ${name} stand for groups."),
    )  # fmt: skip

    def __init__(self, given: Mapping[str, Any]) -> None:
        options = self.OPTIONS.parse(given)
        self._regex = compiled(options["regex"])
        names = frozenset(self._regex.groupindex)
        self._replacement = replacement(options["replacement"], self._regex.groups, names)

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """The record for its new topic. As in Kafka, the first match within the name is replaced."""
        if self._regex.fullmatch(record.topic) is None:
            return record
        first = self._regex.search(record.topic)
        assert first is not None, "the pattern matches the whole name"
        topic = record.topic
        return record.with_topic(topic[: first.start()] + self._replacement(first) + topic[first.end() :])


class TimestampRouter:
    """Puts the record's time into the topic's name."""

    OPTIONS = ConfigDef(
        Option("topic.format", Type.STRING, "${topic}-${timestamp}", _HIGH,
               "The new name; ${topic} and ${timestamp} stand for the old name and the time."),
        Option("timestamp.format", Type.STRING, "yyyyMMdd", _HIGH, "A pattern of Java's SimpleDateFormat, in UTC.",
               understood(DatePattern)),
    )  # fmt: skip

    def __init__(self, given: Mapping[str, Any]) -> None:
        options = self.OPTIONS.parse(given)
        self._topic: str = options["topic.format"]
        self._pattern = DatePattern(options["timestamp.format"])

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """The record for the topic of its time."""
        if record.timestamp is None:
            raise DataException(f"Timestamp missing on record: {record}")
        named = self._topic.replace("${topic}", record.topic)
        return record.with_topic(named.replace("${timestamp}", self._pattern.format(record.timestamp)))
