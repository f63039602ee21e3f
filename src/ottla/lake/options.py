"""The options of a load, each declared once: name, kind, default, meaning, and whether the lake keeps its value.

The command line, the checks of `ottla.lake.load`, its documentation and the notes of a lake are derived from here.
Pure, and without Spark or Arrow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict, cast

from ottla.client.produce.audit_trail import AUDIT_TOPIC
from ottla.jobs.options import JobOption, JobOptionKind, JobOptions, KeptFor, OptionRefused
from ottla.stores.base import LakeRefused


class LoadOptions(TypedDict, total=False):
    """The options of `ottla.lake.load` by name and type; all may be left out, and None leaves one out, too."""

    pattern: str
    bootstrap: str
    on: str
    max_offsets: int
    beginning: str
    accept_loss: bool
    read_committed: bool
    resume_from_table: bool
    values: str
    json: bool
    registry: str
    schema: str
    message: str
    numbers_as_text: bool
    nanoseconds: str
    fields: str | Sequence[str]
    exclude_fields: str | Sequence[str]
    rename: str | Sequence[str]
    flatten: bool
    flatten_separator: str
    where: str
    where_absent_is_null: bool
    dead_letter: str | None
    format: str
    catalog: str
    namespace: str
    key: str | Sequence[str]
    debezium: bool
    debezium_unavailable: str
    partition_by: str | Sequence[str]
    event_time: str
    time_zone: str
    target_size: str | int
    compression: str
    group: str
    audit: bool
    audit_topic: str
    markers: bool
    metrics_port: int | None


ENGINES = ("auto", "spark", "local")
FORMATS = ("parquet", "delta", "iceberg")
CODECS = ("zstd", "snappy", "lz4", "gzip", "none")
NANOSECONDS = ("refuse", "cut", "keep")
VALUES = ("binary", "text", "json", "avro", "protobuf")
_FLAG, _TEXT, _NAMES = JobOptionKind.FLAG, JobOptionKind.TEXT, JobOptionKind.NAMES
_ONCE, _LATEST, _FOR_GOOD = KeptFor.ONCE, KeptFor.LATEST, KeptFor.FOR_GOOD

OPTIONS = (
    JobOption(
        "pattern", _TEXT, "", "load all topics whose whole name matches, instead of named ones", metavar="REGEX"
    ),
    JobOption(
        "bootstrap", _TEXT, "localhost:9092", "brokers of the cluster", metavar="HOST:PORT", flag="--bootstrap-server"
    ),
    JobOption(
        "on", _TEXT, "auto",
        "where the load runs: on spark, local for processes of this machine, or auto: on Spark where one is given or "
        "a round has more than 64 MiB, else here", _ONCE, choices=ENGINES,
    ),
    JobOption(
        "max_offsets", JobOptionKind.COUNT, 20_000_000, "load at most so many offsets in one round", _ONCE, metavar="N"
    ),
    JobOption(
        "beginning", _TEXT, "earliest",
        "where topics begin that are new to the lake: earliest, latest, a time (2026-03-01T12:00Z, -1h, yesterday), or "
        'offsets as JSON: {"topic":{"0":123}}', _ONCE, metavar="WHERE", flag="--from",
    ),
    JobOption("accept_loss", _FLAG, False, "skip offsets that retention deleted before they were loaded", _ONCE),
    JobOption(
        "read_committed", _FLAG, True, "load only records of committed transactions; not those of open or aborted ones"
    ),
    JobOption(
        "resume_from_table", _FLAG, False,
        "where the lake's folder _ottla was lost: go on from the offsets that its Delta or Iceberg tables hold", _ONCE,
    ),
    JobOption(
        "values", _TEXT, "binary", "the format of values; json, avro and protobuf become columns", _FOR_GOOD, "values",
        choices=VALUES, aliases=("bytes",),
    ),
    JobOption("json", _FLAG, False, "the same as values json", _FOR_GOOD, "values"),
    JobOption(
        "registry", _TEXT, "", "schema registries, commas between; each value begins with the id of its schema",
        group="values", metavar="URL",
    ),
    JobOption(
        "schema", _TEXT, "", "the schema of all values, where values begin with no id", group="values", metavar="FILE"
    ),
    JobOption("message", _TEXT, "", "the message of a Protobuf schema that has several", group="values",
               metavar="NAME"),
    JobOption(
        "numbers_as_text", _FLAG, False, "turn a column of whole numbers into text once a text comes", group="values"
    ),
    JobOption(
        "nanoseconds", _TEXT, "refuse",
        "what becomes of a time with digits beyond microseconds: refuse makes it a dead letter, cut drops the digits, "
        "keep makes columns in nanoseconds of Protobuf's Timestamps", group="values", choices=NANOSECONDS,
    ),
    JobOption("fields", _NAMES, "", "make columns of these fields alone", group="values", metavar="NAMES"),
    JobOption("exclude_fields", _NAMES, "", "fields to leave out", group="values", metavar="NAMES"),
    JobOption(
        "rename", JobOptionKind.LIST, (),
        "a field that was renamed; a.OLD=a.NEW in objects, TOPIC:OLD=NEW in one topic; may be repeated", _ONCE,
        "values", "OLD=NEW",
    ),
    JobOption("flatten", _FLAG, False, "make columns of the members of objects: address_zip", _FOR_GOOD, "values"),
    JobOption(
        "flatten_separator", _TEXT, "_", "text between the names that flatten joins", _FOR_GOOD, "values", "TEXT"
    ),
    JobOption(
        "where", _TEXT, "", 'load only rows for which this SQL expression is true, e.g. "amount > 10"', _FOR_GOOD,
        "values", "EXPRESSION",
    ),
    JobOption(
        "where_absent_is_null", _FLAG, False,
        "take a field that the filter names and no record has had yet for null; else the load is refused",
        group="values",
    ),
    JobOption(
        "dead_letter", _TEXT, "", "the topic for records that cannot become rows; without it the load stops at one",
        group="values", metavar="TOPIC",
    ),
    JobOption(
        "format", _TEXT, "", "the format of tables; default parquet on local disks and HDFS, delta on object stores",
        _FOR_GOOD, "the lake", choices=FORMATS,
    ),
    JobOption(
        "catalog", _TEXT, "", "the catalog of Iceberg tables, e.g. sqlite:///lake.db", _FOR_GOOD, "the lake", "URL"
    ),
    JobOption("namespace", _TEXT, "ottla", "the namespace in the catalog", _FOR_GOOD, "the lake", "NAME"),
    JobOption(
        "key", _NAMES, "", "keep only the last row of each key: key for the record's key, or fields", _FOR_GOOD,
        "the lake", "FIELDS",
    ),
    JobOption(
        "debezium", _FLAG, False, "values are Debezium's change events: load the rows that they change", _FOR_GOOD,
        "the lake",
    ),
    JobOption(
        "debezium_unavailable", _TEXT, "",
        "the source's unavailable.value.placeholder, where it is not Debezium's default", _FOR_GOOD, "the lake", "TEXT",
    ),
    JobOption(
        "partition_by", _NAMES, "",
        "none, or month, day or hour and fields, commas between; default day, with a key none", _FOR_GOOD, "the lake",
        "HOW",
    ),
    JobOption(
        "event_time", _TEXT, "", "the field with the event time; default the record's timestamp", _FOR_GOOD, "the lake",
        "FIELD",
    ),
    JobOption("time_zone", _TEXT, "UTC", "the zone of months, days and hours", _FOR_GOOD, "the lake", "ZONE"),
    JobOption("target_size", JobOptionKind.SIZE, 256 << 20, "the size of files", group="the lake", metavar="SIZE"),
    JobOption("compression", _TEXT, "zstd", "the compression of files", group="the lake", choices=CODECS),
    JobOption(
        "group", _TEXT, "", "the consumer group that shows the lake's lag; default ottla-lake- and the lake's name",
        group="reports", metavar="NAME",
    ),
    JobOption("audit", _FLAG, False, "send the counts of each round to the audit topic", group="reports"),
    JobOption("audit_topic", _TEXT, AUDIT_TOPIC, "the audit topic", group="reports", metavar="TOPIC"),
    JobOption(
        "markers", _FLAG, False, "put a _COMPLETE marker down for each day (hour, month) that is complete",
        group="reports",
    ),
    JobOption(
        "metrics_port", JobOptionKind.PORT, None,
        "serve metrics for Prometheus on 127.0.0.1:N/metrics; 0 takes a free port",
        _ONCE, "reports", "N",
    ),
)  # fmt: skip
ARGUMENTS = ("topics", "to", "every", "continuous", "spark", "tell", "stop", "security")
"""The arguments of `ottla.lake.load` that are not among these options."""
LOAD = JobOptions("ottla.lake.load", OPTIONS, beside=ARGUMENTS)
BY_NAME = LOAD.by_name
DEFAULTS = cast("LoadOptions", LOAD.defaults)


def checked(options: Mapping[str, object]) -> LoadOptions:
    """The options that are given, their values checked.

    TypeError for a name that does not exist or a value of another type, LakeRefused for a value that is not allowed.
    """
    try:
        return cast("LoadOptions", LOAD.checked(options))
    except OptionRefused as fault:
        raise LakeRefused(str(fault)) from None


def with_defaults(options: LoadOptions) -> LoadOptions:
    """The options, with the declared default of each that is not given."""
    return {**DEFAULTS, **options}
