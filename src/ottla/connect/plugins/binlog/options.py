"""The options of the MariaDB connector, by Debezium's names, with what is not there of Debezium's."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any, Final

from ottla.connect.checks import between, one_of
from ottla.connect.config_def import ConfigDef, Importance, Option, Type
from ottla.connect.plugins.capture.options import OPTIONS as POSTGRES
from ottla.connect.plugins.capture.options import lists, refuse_absent, with_statements

_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
log = logging.getLogger("ottla.connect")


def _common(*names: str) -> list[Option]:
    """Options that mean the same for any database."""
    return [POSTGRES.options[name] for name in names]


OPTIONS: Final = ConfigDef(
    *_common("topic.prefix", "database.hostname"),
    Option("database.port", Type.INT, 3306, _HIGH, "The server's port.", between(1, 65535)),
    Option("database.user", Type.STRING, importance=_HIGH, doc="The user: REPLICATION SLAVE, BINLOG MONITOR "
           "(REPLICATION CLIENT), and SELECT on the tables."),
    *_common("database.password"),
    Option("database.server.id", Type.LONG, 0, _HIGH, "The number by which the server knows this reader among its "
           "replicas: no other one may have it. 0: one is drawn at each start.", between(0, 2**32 - 1)),
    Option("database.ssl.mode", Type.STRING, "disable", _MEDIUM, "How far TLS is asked for.",
           one_of("disable", "trust", "verify-ca", "verify-full")),
    Option("database.ssl.ca", Type.STRING, None, _MEDIUM, "The PEM file of the authorities' certificates."),
    Option("database.ssl.cert", Type.STRING, None, _MEDIUM, "The PEM file of the client's certificate."),
    Option("database.ssl.key", Type.STRING, None, _MEDIUM, "The PEM file of the client's key."),
    Option("connect.timeout.ms", Type.INT, 30000, _MEDIUM, "The most time for a connection.", between(1000)),
    *_common("database.initial.statements"),
    *lists("database", "databases"), *lists("table", "tables (DATABASE.TABLE)"),
    *lists("column", "columns (DATABASE.TABLE.COLUMN)"),
    *_common("table.ignore.builtin", "message.key.columns"),
    Option("snapshot.mode", Type.STRING, "initial", _MEDIUM, "When the rows that are there are read. recovery: as "
           "no_data, but only with an offset that was kept.",
           one_of("initial", "always", "initial_only", "no_data", "never", "when_needed", "recovery")),
    *_common("snapshot.include.collection.list", "snapshot.select.statement.overrides", "snapshot.fetch.size",
             "max.batch.size"),
    Option("status.update.interval.ms", Type.INT, 10000, _MEDIUM, "The time after which a place in the log that was "
           "passed without a record is kept.", between(1)),
    *_common("decimal.handling.mode"),
    Option("bigint.unsigned.handling.mode", Type.STRING, "long", _MEDIUM, "The form of BIGINT UNSIGNED. long: values "
           "of more than 63 bits are refused.", one_of("long", "precise")),
    Option("time.precision.mode", Type.STRING, "adaptive_time_microseconds", _MEDIUM, "The form of dates and times.",
           one_of("adaptive_time_microseconds", "connect", "isostring", "microseconds", "nanoseconds")),
    *_common("binary.handling.mode", "unavailable.value.placeholder", "tombstones.on.delete", "skipped.operations",
             "provide.transaction.metadata"),
    Option("include.query", Type.BOOLEAN, False, _MEDIUM, "Send the statement of a change with it; the server logs it "
           "with binlog_annotate_row_events=ON."),
    *_common("heartbeat.interval.ms", "heartbeat.action.query", "heartbeat.topics.prefix", "topic.delimiter",
             "schema.name.adjustment.mode", "field.name.adjustment.mode", "extended.headers.enabled"),
)  # fmt: skip
"""The options that have an effect."""
_ABSENT: Final = {
    "converters": "write a transformation", "post.processors": "write a transformation",
    "signal.data.collection": "signals and incremental snapshots are not there",
    "notification.enabled.channels": "notifications are not there",
    "include.schema.changes": "the statements that change tables are not sent; events have the schema of their change",
    "column.propagate.source.type": "", "datatype.propagate.source.type": "", "include.schema.comments": "",
    "topic.naming.strategy": "use the transformation RegexRouter", "sourceinfo.struct.maker": "",
    "transaction.metadata.factory": "", "snapshot.tables.order.by.row.count": "", "snapshot.query.mode": "",
    "gtid.source.includes": "", "gtid.source.excludes": "", "gtid.source.filter.dml.events": "",
    "event.processing.failure.handling.mode": "use errors.tolerance",
    "event.deserialization.failure.handling.mode": "use errors.tolerance",
    "inconsistent.schema.handling.mode": "the log describes its tables, so they are never inconsistent",
    "database.ssl.keystore": "give PEM files in database.ssl.cert and database.ssl.key",
    "database.ssl.truststore": "give a PEM file in database.ssl.ca",
}  # fmt: skip
_DEFAULTS: Final = {
    "topic.naming.strategy": "io.debezium.schema.DefaultTopicNamingStrategy", "include.schema.comments": "false",
    "include.schema.changes": "false", "snapshot.tables.order.by.row.count": "disabled",
    "sourceinfo.struct.maker": "io.debezium.connector.mariadb.MariaDbSourceInfoStructMaker",
    "transaction.metadata.factory": "io.debezium.pipeline.txmetadata.DefaultTransactionMetadataFactory",
    "snapshot.query.mode": "select_all", "event.processing.failure.handling.mode": "fail",
    "event.deserialization.failure.handling.mode": "fail", "inconsistent.schema.handling.mode": "fail",
    "gtid.source.filter.dml.events": "true",
}  # fmt: skip
FREE: Final = (
    r"column\.(mask|truncate)\..+|snapshot\.select\.statement\.overrides\..+|schema\.history\.internal(\..+)?"
    r"|snapshot\.locking\.mode|enable\.time\.adjuster|connect\.keep\.alive(\.interval\.ms)?|database\.protocol"
)
"""Options that name columns, and those of Debezium that have nothing to act on here: there is no history of schemas and
no lock."""
_HISTORY: Final = re.compile(r"schema\.history\.internal(\..+)?")


def checked(config: Mapping[str, str]) -> dict[str, Any]:
    """The typed options; ConfigException for options of Debezium whose meaning is not there."""
    refuse_absent(config, _ABSENT, _DEFAULTS)
    if any(_HISTORY.fullmatch(name) for name in config):
        log.info("schema.history.internal.* has no effect: the log itself describes its tables")
    options = with_statements(OPTIONS.parse(config), config)
    for kind in ("include", "exclude"):  # a database is a schema in the common parts
        options[f"schema.{kind}.list"] = options[f"database.{kind}.list"]
    return options
