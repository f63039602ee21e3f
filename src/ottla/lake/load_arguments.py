"""The options of `ottla lake load`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.lake import report_options
from ottla.lake.choices import CODECS, FORMATS, size_bytes
from ottla.spark.options import duration_ms
from ottla.spark.submit import add_spark_arguments

if TYPE_CHECKING:
    from ottla.lake.settings import LoadOptions


def add_verb(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the verb."""
    verb = verbs.add_parser(
        "load",
        help="load topics into a lake, exactly once",
        description="Load topics into plain Parquet files (PLACE/topic=T/date=YYYY-MM-DD/T-ROUND-NUMBER.parquet), or "
        "into Delta or Iceberg tables. Go on where the last load ended. Once, unless --every or --continuous.",
    )
    verb.add_argument("topics", nargs="*", metavar="TOPIC")
    verb.add_argument("--to", required=True, metavar="PLACE", help="a path, or file:// s3:// gs:// az:// hdfs:// URL")
    verb.add_argument("--pattern", metavar="REGEX", help="all topics whose whole name matches, instead of names")
    verb.add_argument(
        "-b", "--bootstrap-server", default="localhost:9092", metavar="HOST:PORT", help="default localhost:9092"
    )
    _add_rounds(verb)
    _add_values(verb)
    _add_layout(verb)
    report_options.add_options(verb)
    add_spark_arguments(verb)


def chosen(options: argparse.Namespace) -> LoadOptions:
    """The options of `ottla.lake.load` that were given."""
    return {
        "pattern": options.pattern or "",
        "bootstrap": options.bootstrap_server,
        "json": options.json,
        "values": options.values or "",
        "registry": options.registry,
        "schema": options.schema or "",
        "message": options.message,
        "format": options.format or "",
        "catalog": options.catalog,
        "namespace": options.namespace,
        "key": options.key,
        "resume_from_table": options.resume_from_table,
        "debezium": options.debezium,
        "debezium_unavailable": options.debezium_unavailable,
        "partition_by": options.partition_by,
        "event_time": options.event_time,
        "time_zone": options.time_zone,
        "numbers_as_text": options.numbers_as_text,
        "dead_letter": options.dead_letter,
        "target_size": options.target_size,
        "compression": options.compression,
        "beginning": options.beginning,
        "fields": options.fields,
        "exclude_fields": options.exclude_fields,
        "rename": options.rename,
        "flatten": options.flatten,
        "flatten_separator": options.flatten_separator,
        "where": options.where,
        "where_absent_is_null": options.where_absent_is_null,
        "accept_loss": options.accept_loss,
        "max_offsets": options.max_offsets,
        "read_committed": not options.read_uncommitted,
        **report_options.chosen(options),
    }


def _add_rounds(verb: argparse.ArgumentParser) -> None:
    """Options about when to load, how much at a time, and what is not an error."""
    when = verb.add_mutually_exclusive_group()
    when.add_argument("--every", metavar="TIME", type=_duration, help="again and again, e.g. 1m, until stopped")
    when.add_argument("--continuous", action="store_true", help="again at once, until stopped")
    verb.add_argument(
        "--max-offsets", type=_count, default=20_000_000, metavar="N", help="in one round; default 20,000,000"
    )
    verb.add_argument(
        "--from", dest="beginning", default="earliest", metavar="WHERE",
        help="where new topics begin: earliest (default), latest, a time, or offsets as JSON",
    )  # fmt: skip
    verb.add_argument("--accept-loss", action="store_true", help="go on where retention removed records unread")
    verb.add_argument(
        "--read-uncommitted", action="store_true", help="load records of open and aborted transactions too"
    )
    verb.add_argument(
        "--resume-from-table",
        action="store_true",
        help="where the lake's state was lost: go on from what its Delta or Iceberg tables say is loaded",
    )


def _add_values(verb: argparse.ArgumentParser) -> None:
    """Options about values."""
    group = verb.add_argument_group("values")
    group.add_argument(
        "--values",
        choices=("binary", "text", "json", "avro", "protobuf"),
        help="what values are; json, avro and protobuf become columns; default binary",
    )
    group.add_argument("--json", action="store_true", help="the same as --values json")
    group.add_argument("--registry", default="", metavar="URL", help="where schemas are, by the ids in values")
    group.add_argument("--schema", type=_text_of, metavar="FILE", help="the schema of all values, which have no ids")
    group.add_argument("--message", default="", metavar="NAME", help="which message of a Protobuf file")
    group.add_argument(
        "--numbers-as-text", action="store_true", help="a field of whole numbers becomes text where a text turns up"
    )
    group.add_argument("--fields", default="", metavar="NAMES", help="only these become columns, commas between")
    group.add_argument("--exclude-fields", default="", metavar="NAMES", help="these become none")
    group.add_argument(
        "--rename", action="append", default=[], metavar="OLD=NEW",
        help="a field that was renamed; a.OLD=a.NEW in objects, TOPIC:OLD=NEW in one topic; may be repeated",
    )  # fmt: skip
    group.add_argument("--flatten", action="store_true", help="members of objects become columns: address_zip")
    group.add_argument(
        "--flatten-separator", default="_", metavar="TEXT", help="between the names that --flatten joins; default _"
    )
    group.add_argument(
        "--where", default="", metavar="EXPRESSION", help='load only rows for which this is true, e.g. "amount > 10"'
    )
    group.add_argument(
        "--where-absent-is-null",
        action="store_true",
        help="a field that --where names and no record has had yet is null; else the load is refused",
    )
    group.add_argument("--dead-letter", metavar="TOPIC", help="where records go that cannot become columns")


def _add_layout(verb: argparse.ArgumentParser) -> None:
    """Options about the lake's layout; the same from load to load."""
    group = verb.add_argument_group("the lake")
    group.add_argument(
        "--format", choices=FORMATS, help="parquet (default on file:// and hdfs://), delta (on object stores), iceberg"
    )
    group.add_argument("--catalog", default="", metavar="URL", help="of Iceberg's catalog, e.g. sqlite:///lake.db")
    group.add_argument("--namespace", default="ottla", metavar="NAME", help="in the catalog; default ottla")
    group.add_argument(
        "--key", default="", metavar="FIELDS", help="keep the last row of each key: key, or fields, commas between"
    )
    group.add_argument(
        "--debezium", action="store_true", help="values are Debezium's change events: load the rows that they change"
    )
    group.add_argument(
        "--debezium-unavailable",
        default="",
        metavar="TEXT",
        help="the source's unavailable.value.placeholder, where it is not Debezium's default",
    )
    group.add_argument(
        "--partition-by",
        default="",
        metavar="HOW",
        help="none, or month|day|hour and fields, commas between; default day, with --key none",
    )
    group.add_argument("--event-time", default="", metavar="FIELD", help="the field whose time counts")
    group.add_argument("--time-zone", default="UTC", metavar="ZONE", help="of months, days and hours; default UTC")
    group.add_argument("--target-size", type=_size, default="256m", metavar="SIZE", help="of files; default 256m")
    group.add_argument("--compression", choices=CODECS, default="zstd", help="of files; default zstd")


def _duration(text: str) -> str:
    try:
        duration_ms(text)
    except ValueError as fault:
        raise argparse.ArgumentTypeError(str(fault)) from fault
    return text


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"not a positive number: {text}")
    return int(text)


def _size(text: str) -> int:
    try:
        return size_bytes(text)
    except ValueError as fault:
        raise argparse.ArgumentTypeError(str(fault)) from fault


def _text_of(path: str) -> str:
    try:
        return Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        raise argparse.ArgumentTypeError(f"{path}: {fault}") from fault
