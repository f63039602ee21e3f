"""The options of the Postgres connector, by Debezium's names, with what is not there of Debezium's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from ottla.connect.checks import all_of, between, non_empty_text, one_of, understood
from ottla.connect.config_def import ConfigDef, Importance, Option, Type
from ottla.connect.errors import ConfigException

_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW


def _patterns(name: str, value: Any) -> None:
    for each in value or ():
        understood(re.compile, "Invalid regex: ")(name, each)


def _operations(name: str, value: Any) -> None:
    if strange := set(value or ()) - {"c", "u", "d", "t", "m", "none"}:
        raise ConfigException.of(name, value, f"{sorted(strange)[0]} is no operation: c, u, d, t, m or none")


def _slot_name(name: str) -> None:
    if not re.fullmatch(r"[a-z0-9_]{1,63}", name):
        raise ValueError("a slot's name has lower case letters, digits and underscores, at most 63")


def _topic_part(text: str) -> None:
    if not re.fullmatch(r"[a-zA-Z0-9._-]+", text):
        raise ValueError("a topic's name has letters, digits, dots, dashes and underscores")


def _placeholder(text: str) -> None:
    if text.startswith("hex:"):
        bytes.fromhex(text[4:])


def lists(what: str, of: str) -> tuple[Option, Option]:
    """The options to include and to leave out."""
    return (
        Option(f"{what}.include.list", Type.LIST, [], _MEDIUM, f"Regular expressions of {of} to capture; empty: all.",
               _patterns),
        Option(f"{what}.exclude.list", Type.LIST, [], _MEDIUM, f"Regular expressions of {of} to leave out.", _patterns),
    )  # fmt: skip


OPTIONS: Final = ConfigDef(
    Option("topic.prefix", Type.STRING, importance=_HIGH, doc="The name of the server in topics and events.",
           check=understood(_topic_part)),
    Option("database.hostname", Type.STRING, importance=_HIGH, doc="The server.", check=non_empty_text),
    Option("database.port", Type.INT, 5432, _HIGH, "The server's port.", between(1, 65535)),
    Option("database.user", Type.STRING, importance=_HIGH, doc="The user: it may replicate and read the tables."),
    Option("database.password", Type.PASSWORD, None, _HIGH, "The user's password."),
    Option("database.dbname", Type.STRING, importance=_HIGH, doc="The database.", check=non_empty_text),
    Option("database.sslmode", Type.STRING, "prefer", _MEDIUM, "How far TLS is asked for.",
           one_of("disable", "allow", "prefer", "require", "verify-ca", "verify-full")),
    Option("database.sslcert", Type.STRING, None, _MEDIUM, "The file of the client's certificate."),
    Option("database.sslkey", Type.STRING, None, _MEDIUM, "The file of the client's key."),
    Option("database.sslpassword", Type.PASSWORD, None, _MEDIUM, "The password of the client's key."),
    Option("database.sslrootcert", Type.STRING, None, _MEDIUM, "The file of the authorities' certificates."),
    Option("database.initial.statements", Type.STRING, None, _LOW, "Statements for each session, with semicolons."),
    Option("plugin.name", Type.STRING, "pgoutput", _MEDIUM, "The plugin of the server.", one_of("pgoutput")),
    Option("slot.name", Type.STRING, "debezium", _MEDIUM, "The replication slot; it is made where it is not there.",
           understood(_slot_name)),
    Option("slot.drop.on.stop", Type.BOOLEAN, False, _MEDIUM, "Drop the slot when the connector stops in order. The "
           "changes until its next start are lost then: for tests alone."),
    Option("slot.failover", Type.BOOLEAN, False, _MEDIUM, "Make a slot that standby servers keep too (PostgreSQL 17)."),
    Option("publication.name", Type.STRING, "dbz_publication", _MEDIUM, "The publication.", non_empty_text),
    Option("publication.autocreate.mode", Type.STRING, "all_tables", _MEDIUM, "How the publication is made.",
           one_of("disabled", "all_tables", "filtered", "no_tables")),
    Option("publish.via.partition.root", Type.BOOLEAN, False, _LOW, "Changes of partitions are those of the whole."),
    *lists("schema", "schemas"), *lists("table", "tables (SCHEMA.TABLE)"),
    *lists("column", "columns (SCHEMA.TABLE.COLUMN)"),
    Option("table.ignore.builtin", Type.BOOLEAN, True, _LOW, "Leave out the tables of the server itself."),
    Option("message.key.columns", Type.STRING, None, _MEDIUM, "Keys other than the primary key: "
           "SCHEMA.TABLE:COLUMN,COLUMN;…"),
    Option("snapshot.mode", Type.STRING, "initial", _MEDIUM, "When the rows that are there are read.",
           one_of("initial", "always", "initial_only", "no_data", "never", "when_needed")),
    Option("snapshot.include.collection.list", Type.LIST, [], _MEDIUM, "Regular expressions of tables whose rows are "
           "read first; empty: all that are captured.", _patterns),
    Option("snapshot.select.statement.overrides", Type.STRING, None, _MEDIUM, "Tables, as SCHEMA.TABLE with commas, "
           "whose rows are read by the statement in snapshot.select.statement.overrides.SCHEMA.TABLE."),
    Option("snapshot.fetch.size", Type.INT, 10240, _MEDIUM, "The most rows taken at once in a snapshot.", between(1)),
    Option("max.batch.size", Type.INT, 2048, _MEDIUM, "The most changes taken at once.", between(1)),
    Option("status.update.interval.ms", Type.INT, 10000, _MEDIUM, "The time between two reports to the server.",
           between(1)),
    Option("decimal.handling.mode", Type.STRING, "precise", _MEDIUM, "The form of NUMERIC and MONEY.",
           one_of("precise", "double", "string")),
    Option("money.fraction.digits", Type.SHORT, 2, _LOW, "The digits behind the point of MONEY.", between(0)),
    Option("time.precision.mode", Type.STRING, "adaptive", _MEDIUM, "The form of dates, times and timestamps.",
           one_of("adaptive", "adaptive_time_microseconds", "connect", "isostring", "microseconds", "nanoseconds")),
    Option("interval.handling.mode", Type.STRING, "numeric", _LOW, "The form of INTERVAL.",
           one_of("numeric", "string")),
    Option("binary.handling.mode", Type.STRING, "bytes", _LOW, "The form of BYTEA.",
           one_of("bytes", "base64", "base64-url-safe", "hex")),
    Option("hstore.handling.mode", Type.STRING, "json", _LOW, "The form of HSTORE.", one_of("json", "map")),
    Option("include.unknown.datatypes", Type.BOOLEAN, False, _LOW, "Send columns of unknown types as bytes."),
    Option("unavailable.value.placeholder", Type.STRING, "__debezium_unavailable_value", _MEDIUM, "The value in place "
           "of one that is stored apart and was not changed; hex:… gives bytes.", understood(_placeholder)),
    Option("tombstones.on.delete", Type.BOOLEAN, True, _MEDIUM, "Send a record without a value behind each deletion."),
    Option("skipped.operations", Type.LIST, ["t"], _LOW, "Changes to leave out: c, u, d, t, m; none: none.",
           _operations),
    Option("message.prefix.include.list", Type.LIST, [], _MEDIUM, "Prefixes of the log's messages to send."),
    Option("message.prefix.exclude.list", Type.LIST, [], _MEDIUM, "Prefixes of the log's messages to leave out."),
    Option("provide.transaction.metadata", Type.BOOLEAN, False, _LOW, "Tell the begin and the end of transactions."),
    Option("heartbeat.interval.ms", Type.INT, 0, _MEDIUM, "The time between two heartbeat records; 0: none.",
           between(0)),
    Option("heartbeat.action.query", Type.STRING, None, _LOW, "A statement for the database at each heartbeat."),
    Option("heartbeat.topics.prefix", Type.STRING, "__debezium-heartbeat", _LOW, "Begins the heartbeats' topic."),
    Option("topic.delimiter", Type.STRING, ".", _MEDIUM, "Stands between the parts of a topic's name.",
           all_of(non_empty_text, understood(_topic_part))),
    Option("schema.name.adjustment.mode", Type.STRING, "none", _MEDIUM, "Whether names of schemas fit Avro.",
           one_of("none", "avro")),
    Option("field.name.adjustment.mode", Type.STRING, "none", _MEDIUM, "Whether names of fields fit Avro.",
           one_of("none", "avro")),
    Option("extended.headers.enabled", Type.BOOLEAN, True, _LOW, "Send the headers __debezium.context.*."),
)  # fmt: skip
"""The options that have an effect."""
_ABSENT: Final = {
    "converters": "write a transformation", "post.processors": "write a transformation",
    "signal.data.collection": "signals and incremental snapshots are not there",
    "notification.enabled.channels": "notifications are not there",
    "column.propagate.source.type": "", "datatype.propagate.source.type": "", "include.schema.comments": "",
    "replica.identity.autoset.values": "set REPLICA IDENTITY by ALTER TABLE", "slot.stream.params": "",
    "topic.naming.strategy": "use the transformation RegexRouter", "xmin.fetch.interval.ms": "",
    "sourceinfo.struct.maker": "", "transaction.metadata.factory": "",
    "snapshot.tables.order.by.row.count": "", "snapshot.query.mode": "", "snapshot.locking.mode": "",
    "flush.lsn.source": "", "lsn.flush.mode": "", "event.processing.failure.handling.mode": "use errors.tolerance",
}  # fmt: skip
"""Options of Debezium that would change events and are not there, with what to do."""
_DEFAULTS: Final = {
    "topic.naming.strategy": "io.debezium.schema.SchemaTopicNamingStrategy", "xmin.fetch.interval.ms": "0",
    "include.schema.comments": "false", "snapshot.tables.order.by.row.count": "disabled",
    "sourceinfo.struct.maker": "io.debezium.connector.postgresql.PostgresSourceInfoStructMaker",
    "transaction.metadata.factory": "io.debezium.pipeline.txmetadata.DefaultTransactionMetadataFactory",
    "snapshot.query.mode": "select_all", "snapshot.locking.mode": "none", "flush.lsn.source": "true",
    "lsn.flush.mode": "connector", "event.processing.failure.handling.mode": "fail",
}  # fmt: skip
_OLD_HASH: Final = re.compile(r"column\.mask\.hash\.(?!v2\.).*")
STATEMENT: Final = "snapshot.select.statement.overrides."


def checked(config: Mapping[str, str]) -> dict[str, Any]:
    """The typed options; ConfigException for options of Debezium whose meaning is not there."""
    refuse_absent(config, _ABSENT, _DEFAULTS)
    return with_statements(OPTIONS.parse(config), config)


def refuse_absent(config: Mapping[str, str], absent: Mapping[str, str], defaults: Mapping[str, str]) -> None:
    """Refuse options of Debezium that are not there, unless they have their default."""
    for name, advice in absent.items():
        value = config.get(name)
        if value is not None and value.strip() not in ("", defaults.get(name)):
            more = f": {advice}" if advice else ""
            raise ConfigException(f"{name}={value} is an option of Debezium that is not there{more}")
    for name in config:
        if _OLD_HASH.fullmatch(name):
            raise ConfigException(f"{name}: use column.mask.hash.v2.…, whose hashes are of the text alone")


def with_statements(options: dict[str, Any], config: Mapping[str, str]) -> dict[str, Any]:
    """The options with the statements of `snapshot.select.statement.overrides` by their tables."""
    overrides = [each.strip() for each in (options["snapshot.select.statement.overrides"] or "").split(",")]
    options["statements"] = {}
    for table in filter(None, overrides):
        if STATEMENT + table not in config:
            raise ConfigException(f"snapshot.select.statement.overrides names {table}: set {STATEMENT}{table}")
        options["statements"][table] = config[STATEMENT + table]
    if options["heartbeat.action.query"] and not options["heartbeat.interval.ms"]:
        raise ConfigException("heartbeat.action.query needs heartbeat.interval.ms above 0")
    return options
