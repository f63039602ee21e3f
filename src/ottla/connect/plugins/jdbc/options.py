"""The options of both connectors, by Confluent's names."""

from __future__ import annotations

import re
from typing import Any, Final
from zoneinfo import ZoneInfo

from ottla.connect.checks import between, non_empty_text, one_of, understood
from ottla.connect.config_def import ConfigDef, Importance, Option, Type

_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW


def zone(name: str) -> ZoneInfo:
    """A time zone by its name."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ValueError("no time zone has this name") from None


def _patterns(name: str, value: Any) -> None:
    for each in value:
        understood(re.compile, "Invalid regex: ")(name, each)


_CONNECTION: Final = (
    Option("connection.url", Type.STRING, importance=_HIGH, doc="jdbc:postgresql://HOST/DB, jdbc:mysql://HOST/DB, "
           "jdbc:mariadb://HOST/DB, jdbc:sqlite:FILE, or any address of SQLAlchemy.", check=non_empty_text),
    Option("connection.user", Type.STRING, None, _HIGH, "The user of the database."),
    Option("connection.password", Type.PASSWORD, None, _HIGH, "The user's password."),
    Option("db.timezone", Type.STRING, "UTC", _MEDIUM, "The time zone of times that stand without one.",
           understood(zone)),
)  # fmt: skip
SOURCE: Final = ConfigDef(
    *_CONNECTION,
    Option("mode", Type.STRING, importance=_HIGH, doc="How new rows are found.",
           check=one_of("bulk", "incrementing", "timestamp", "timestamp+incrementing")),
    Option("topic.prefix", Type.STRING, importance=_HIGH, doc="A table's topic is this and the table's name; with a "
           "query the topic is this alone."),
    Option("incrementing.column.name", Type.STRING, "", _MEDIUM, "The column that only grows; empty: the primary key, "
           "if that is one whole number."),
    Option("timestamp.column.name", Type.LIST, [], _MEDIUM, "The column of the last change; of several the first that "
           "is not null."),
    Option("timestamp.initial", Type.LONG, None, _LOW, "Begin behind this time in milliseconds; none: with all rows."),
    Option("timestamp.delay.interval.ms", Type.LONG, 0, _HIGH, "Leave rows that are younger for the next poll, so that "
           "transactions in progress can commit. PostgreSQL needs none.", between(0)),
    Option("timestamp.granularity", Type.STRING, "connect_logical", _LOW, "connect_logical: milliseconds. micros_long, "
           "nanos_long: numbers that keep all digits.", one_of("connect_logical", "micros_long", "nanos_long")),
    Option("validate.non.null", Type.BOOLEAN, True, _LOW, "Refuse columns of mode that may be null: such rows are "
           "never read."),
    Option("table.whitelist", Type.LIST, [], _MEDIUM, "The tables to read."),
    Option("table.blacklist", Type.LIST, [], _MEDIUM, "The tables to leave out."),
    Option("table.include.list", Type.LIST, [], _MEDIUM, "Regular expressions of tables to read.", _patterns),
    Option("table.exclude.list", Type.LIST, [], _MEDIUM, "Regular expressions of tables to leave out.", _patterns),
    Option("table.types", Type.LIST, ["TABLE"], _LOW, "TABLE, VIEW or both."),
    Option("catalog.pattern", Type.STRING, None, _MEDIUM, "The database of MariaDB whose tables are read."),
    Option("schema.pattern", Type.STRING, None, _HIGH, "The schemas whose tables are read; % and _ as in LIKE."),
    Option("query", Type.STRING, "", _MEDIUM, "Read this query instead of tables. Its rows are taken "
           "as those of a table: with a mode other than bulk, a WHERE by its columns is added."),
    Option("poll.interval.ms", Type.INT, 5000, _HIGH, "The time between two polls of a table.", between(1)),
    Option("batch.max.rows", Type.INT, 100, _LOW, "The most rows taken at once.", between(1)),
    Option("numeric.mapping", Type.STRING, "none", _LOW, "The type of NUMERIC.",
           one_of("none", "precision_only", "best_fit", "best_fit_eager_double")),
)  # fmt: skip
"""The options of the source."""
SINK: Final = ConfigDef(
    *_CONNECTION,
    Option("insert.mode", Type.STRING, "insert", _HIGH, "How records become rows.",
           one_of("insert", "upsert", "update")),
    Option("pk.mode", Type.STRING, "none", _HIGH, "Where the primary key comes from.",
           one_of("none", "kafka", "record_key", "record_value")),
    Option("pk.fields", Type.LIST, [], _MEDIUM, "The columns of the primary key; empty: all fields, or Kafka's three."),
    Option("delete.enabled", Type.BOOLEAN, False, _MEDIUM, "A null value deletes the row; needs pk.mode=record_key."),
    Option("auto.create", Type.BOOLEAN, False, _MEDIUM, "Create tables that do not exist."),
    Option("auto.evolve", Type.BOOLEAN, False, _MEDIUM, "Add columns that tables lack."),
    Option("table.name.format", Type.STRING, "${topic}", _MEDIUM, "The table of a topic.", non_empty_text),
    Option("fields.whitelist", Type.LIST, [], _MEDIUM, "The fields to write; empty: all."),
    Option("unavailable.value.placeholder", Type.STRING, "__debezium_unavailable_value", _LOW, "A field with this "
           "value was not changed: an upsert or update leaves its column alone. Empty: no value is special."),
    Option("batch.size", Type.INT, 3000, _MEDIUM, "The most records of one transaction.", between(1)),
    Option("max.retries", Type.INT, 10, _MEDIUM, "How often a failure that may pass is tried again.", between(0)),
    Option("retry.backoff.ms", Type.INT, 3000, _MEDIUM, "The time between two attempts.", between(0)),
)  # fmt: skip
"""The options of the sink."""
