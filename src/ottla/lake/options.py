"""The options of a load, each declared once: name, kind, default, meaning, and whether the lake keeps its value.

The command line, the checks of `ottla.lake.load`, its documentation and the notes of a lake are derived from here.
Pure, and without Spark or Arrow.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from typing import TypedDict, TypeGuard, cast

from ottla.client.produce.audit_trail import AUDIT_TOPIC
from ottla.kernel.quantities import size_bytes
from ottla.lake.stores.base import LakeRefused


class LoadOptions(TypedDict, total=False):
    """The options of `ottla.lake.load` by name and type; all may be left out, and None leaves one out, too."""

    pattern: str
    bootstrap: str
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


class Kind(Enum):
    """The type of an option's value."""

    TEXT = "text"
    FLAG = "True or False"
    NAMES = "names, commas between or as a list"
    LIST = "a list of texts"
    SIZE = "a size such as 64MiB"
    COUNT = "a number above 0"
    PORT = "a port, 0 to 65535"


class Kept(Enum):
    """The time for which an option has its value."""

    ONCE = "for this load"
    LATEST = "until a load says otherwise"
    FOR_GOOD = "for the life of the lake"


@dataclass(frozen=True, slots=True)
class LoadOption:
    """One option. Its flag is `--name` with dashes, unless `flag` names another."""

    name: str
    kind: Kind
    default: object
    doc: str
    kept: Kept = Kept.LATEST
    group: str = ""
    metavar: str = ""
    choices: tuple[str, ...] = ()
    flag: str = ""

    @property
    def spelt(self) -> str:
        """The option as the command line has it."""
        return self.flag or f"--{self.name.replace('_', '-')}"


FORMATS = ("parquet", "delta", "iceberg")
CODECS = ("zstd", "snappy", "lz4", "gzip", "none")
VALUES = ("binary", "text", "json", "avro", "protobuf")
_FLAG, _TEXT, _NAMES = Kind.FLAG, Kind.TEXT, Kind.NAMES
_ONCE, _LATEST, _FOR_GOOD = Kept.ONCE, Kept.LATEST, Kept.FOR_GOOD

OPTIONS = (
    LoadOption(
        "pattern", _TEXT, "", "load all topics whose whole name matches, instead of named ones", metavar="REGEX"
    ),
    LoadOption(
        "bootstrap", _TEXT, "localhost:9092", "brokers of the cluster", metavar="HOST:PORT", flag="--bootstrap-server"
    ),
    LoadOption(
        "max_offsets", Kind.COUNT, 20_000_000, "load at most so many offsets in one round", _ONCE, metavar="N"
    ),
    LoadOption(
        "beginning", _TEXT, "earliest",
        "where topics begin that are new to the lake: earliest, latest, a time (2026-03-01T12:00Z, -1h, yesterday), or "
        'offsets as JSON: {"topic":{"0":123}}', _ONCE, metavar="WHERE", flag="--from",
    ),
    LoadOption("accept_loss", _FLAG, False, "skip offsets that retention deleted before they were loaded", _ONCE),
    LoadOption(
        "read_committed", _FLAG, True, "load only records of committed transactions; not those of open or aborted ones"
    ),
    LoadOption(
        "resume_from_table", _FLAG, False,
        "where the lake's folder _ottla was lost: go on from the offsets that its Delta or Iceberg tables hold", _ONCE,
    ),
    LoadOption(
        "values", _TEXT, "binary", "the format of values; json, avro and protobuf become columns", _FOR_GOOD, "values",
        choices=VALUES,
    ),
    LoadOption("json", _FLAG, False, "the same as values json", _FOR_GOOD, "values"),
    LoadOption(
        "registry", _TEXT, "", "schema registries, commas between; each value begins with the id of its schema",
        group="values", metavar="URL",
    ),
    LoadOption(
        "schema", _TEXT, "", "the schema of all values, where values begin with no id", group="values", metavar="FILE"
    ),
    LoadOption("message", _TEXT, "", "the message of a Protobuf schema that has several", group="values",
               metavar="NAME"),
    LoadOption(
        "numbers_as_text", _FLAG, False, "turn a column of whole numbers into text once a text comes", group="values"
    ),
    LoadOption("fields", _NAMES, "", "make columns of these fields alone", group="values", metavar="NAMES"),
    LoadOption("exclude_fields", _NAMES, "", "fields to leave out", group="values", metavar="NAMES"),
    LoadOption(
        "rename", Kind.LIST, (),
        "a field that was renamed; a.OLD=a.NEW in objects, TOPIC:OLD=NEW in one topic; may be repeated", _ONCE,
        "values", "OLD=NEW",
    ),
    LoadOption("flatten", _FLAG, False, "make columns of the members of objects: address_zip", _FOR_GOOD, "values"),
    LoadOption(
        "flatten_separator", _TEXT, "_", "text between the names that flatten joins", _FOR_GOOD, "values", "TEXT"
    ),
    LoadOption(
        "where", _TEXT, "", 'load only rows for which this SQL expression is true, e.g. "amount > 10"', _FOR_GOOD,
        "values", "EXPRESSION",
    ),
    LoadOption(
        "where_absent_is_null", _FLAG, False,
        "take a field that the filter names and no record has had yet for null; else the load is refused",
        group="values",
    ),
    LoadOption(
        "dead_letter", _TEXT, "", "the topic for records that cannot become rows; without it the load stops at one",
        group="values", metavar="TOPIC",
    ),
    LoadOption(
        "format", _TEXT, "", "the format of tables; default parquet on local disks and HDFS, delta on object stores",
        _FOR_GOOD, "the lake", choices=FORMATS,
    ),
    LoadOption(
        "catalog", _TEXT, "", "the catalog of Iceberg tables, e.g. sqlite:///lake.db", _FOR_GOOD, "the lake", "URL"
    ),
    LoadOption("namespace", _TEXT, "ottla", "the namespace in the catalog", _FOR_GOOD, "the lake", "NAME"),
    LoadOption(
        "key", _NAMES, "", "keep only the last row of each key: key for the record's key, or fields", _FOR_GOOD,
        "the lake", "FIELDS",
    ),
    LoadOption(
        "debezium", _FLAG, False, "values are Debezium's change events: load the rows that they change", _FOR_GOOD,
        "the lake",
    ),
    LoadOption(
        "debezium_unavailable", _TEXT, "",
        "the source's unavailable.value.placeholder, where it is not Debezium's default", _FOR_GOOD, "the lake", "TEXT",
    ),
    LoadOption(
        "partition_by", _NAMES, "",
        "none, or month, day or hour and fields, commas between; default day, with a key none", _FOR_GOOD, "the lake",
        "HOW",
    ),
    LoadOption(
        "event_time", _TEXT, "", "the field with the event time; default the record's timestamp", _FOR_GOOD, "the lake",
        "FIELD",
    ),
    LoadOption("time_zone", _TEXT, "UTC", "the zone of months, days and hours", _FOR_GOOD, "the lake", "ZONE"),
    LoadOption("target_size", Kind.SIZE, 256 << 20, "the size of files", group="the lake", metavar="SIZE"),
    LoadOption("compression", _TEXT, "zstd", "the compression of files", group="the lake", choices=CODECS),
    LoadOption(
        "group", _TEXT, "", "the consumer group that shows the lake's lag; default ottla-lake- and the lake's name",
        group="reports", metavar="NAME",
    ),
    LoadOption("audit", _FLAG, False, "send the counts of each round to the audit topic", group="reports"),
    LoadOption("audit_topic", _TEXT, AUDIT_TOPIC, "the audit topic", group="reports", metavar="TOPIC"),
    LoadOption(
        "markers", _FLAG, False, "put a _COMPLETE marker down for each day (hour, month) that is complete",
        group="reports",
    ),
    LoadOption(
        "metrics_port", Kind.PORT, None, "serve metrics for Prometheus on 127.0.0.1:N/metrics; 0 takes a free port",
        _ONCE, "reports", "N",
    ),
)  # fmt: skip
BY_NAME = {option.name: option for option in OPTIONS}
DEFAULTS = cast("LoadOptions", {option.name: option.default for option in OPTIONS})
_BESIDE = ("topics", "to", "every", "continuous", "spark", "tell", "stop")
"""The arguments of `ottla.lake.load` that are not among these options."""
_FLAG_IN_TEXT = re.compile(r"(?<![\w-])(--[a-z]+(?:-[a-z]+)*)( [A-Z]{2,}\b)?")
"""A flag, and the word in capitals that stands for its value."""


def checked(options: Mapping[str, object]) -> LoadOptions:
    """The options that are given, their values checked.

    TypeError for a name that does not exist or a value of another type, LakeRefused for a value that is not allowed.
    """
    for name in options:
        if name not in BY_NAME:
            near = get_close_matches(name, [*BY_NAME, *_BESIDE], n=1)
            raise TypeError(f"ottla.lake.load has no option {name}" + (f"; did you mean {near[0]}?" if near else ""))
    given = {name: value_of(BY_NAME[name], value) for name, value in options.items() if value is not None}
    return cast("LoadOptions", given)


def in_python(sentence: str) -> str:
    """A sentence about flags of the command line as one about the options of `ottla.lake.load`."""
    return _FLAG_IN_TEXT.sub(_keyword, sentence)


def _keyword(found: re.Match[str]) -> str:
    flag, metavar = found[1], found[2] or ""
    if flag.removeprefix("--") in _BESIDE:
        return f"{flag.removeprefix('--')}{metavar}"
    name = flag.removeprefix("--").replace("-", "_")
    option = next((each for each in OPTIONS if each.spelt == flag), None) or BY_NAME.get(name.removeprefix("no_"))
    if option is None:
        return found[0]
    if option.kind is Kind.FLAG:
        return f"{option.name}={option.spelt == flag}{metavar}"
    is_value = bool(metavar) and metavar.strip() == option.metavar
    return f"{option.name}={option.metavar}" if is_value else f"{option.name}{metavar}"


def with_defaults(options: LoadOptions) -> LoadOptions:
    """The options, with the declared default of each that is not given."""
    return {**DEFAULTS, **options}


def options_text() -> str:
    """Lines about all options, for the docstring of `ottla.lake.load`."""
    lines = ["    Options:", ""]
    for option in OPTIONS:
        default = "" if option.default in ("", None, ()) else f"; default {option.default}"
        lines += textwrap.wrap(
            f"{option.name}: {option.doc}{default}", 112, initial_indent="    ", subsequent_indent="        "
        )
    return "\n".join(lines)


def value_of(option: LoadOption, value: object) -> object:
    """A value of an option, as the loader has it."""
    match option.kind:
        case Kind.FLAG if isinstance(value, bool):
            return value
        case Kind.TEXT if isinstance(value, str):
            return _chosen(option, value)
        case Kind.NAMES if isinstance(value, str):
            return value
        case Kind.NAMES if _is_texts(value):
            return _joined(option, value)
        case Kind.LIST if _is_texts(value):
            return tuple(value)
        case Kind.LIST if isinstance(value, str):
            return (value,)
        case Kind.SIZE if isinstance(value, str) or _is_number(value):
            return _size(option, value)
        case Kind.COUNT | Kind.PORT if _is_number(value):
            return _number(option, value)
    raise TypeError(f"{option.name} is {option.kind.value}, not {value!r}")


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_texts(value: object) -> TypeGuard[list[str] | tuple[str, ...]]:
    return isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)


def _joined(option: LoadOption, names: Sequence[str]) -> str:
    if odd := [name for name in names if "," in name]:
        raise LakeRefused(f"{option.name}: the name {odd[0]!r} holds a comma, which stands between names")
    return ",".join(names)


def _chosen(option: LoadOption, text: str) -> str:
    if option.choices and text not in option.choices and (option.name, text) != ("values", "bytes"):
        near = get_close_matches(text, option.choices, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise LakeRefused(f"{option.spelt} {text}: give one of {', '.join(option.choices)}{hint}")
    return text


def _size(option: LoadOption, value: object) -> int:
    try:
        size = size_bytes(value) if isinstance(value, str) else cast("int", value)
    except ValueError as fault:
        raise LakeRefused(f"{option.spelt}: {fault}") from None
    if size <= 0:
        raise LakeRefused(f"{option.spelt} {value}: give a size above 0")
    return size


def _number(option: LoadOption, value: object) -> int:
    number = cast("int", value)
    if option.kind is Kind.COUNT and number <= 0:
        raise LakeRefused(f"{option.spelt} {number}: give a number above 0")
    if option.kind is Kind.PORT and not 0 <= number <= 65_535:
        raise LakeRefused(f"{option.spelt} {number}: give a port, 0 to 65535")
    return number
