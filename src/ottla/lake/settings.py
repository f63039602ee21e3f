"""A loader's settings, and how they are made from its options."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ottla.client.registry_client import registry_urls
from ottla.lake.beginning import parse_beginning
from ottla.lake.choices import FORMATS, size_bytes
from ottla.lake.layout import Layout, parse_layout
from ottla.lake.renaming import parse_renames
from ottla.lake.report_options import ReportOptions, Reports, reports
from ottla.lake.shape import PLACEHOLDER, Shape
from ottla.lake.stores import LakeRefused, lake_url
from ottla.lake.tables.names import is_allowed
from ottla.lake.types import Rule
from ottla.lake.values import KINDS, WITH_SCHEMA, ValueKind
from ottla.spark.kafka_settings import KafkaSettings
from ottla.spark.options import Selection
from ottla.spark.plan import Edge, Limit

MiB = 1 << 20
MOST_COPIED = 4 << 30
"""The largest target size on S3, below the most that one copy on the server may have: files are a little larger."""
MOST_OF_A_SEPARATOR = 8
STATES = (("before",), ("after",), ("payload", "before"), ("payload", "after"))
"""The places of the row's fields in a change event."""
COLUMNED = ("json", *WITH_SCHEMA)


class LoadOptions(ReportOptions, total=False):
    """The options of `ottla.lake.load`, as `ottla lake load` has them; all may be left out."""

    pattern: str
    """All topics whose whole name matches, instead of names."""
    bootstrap: str
    values: str
    """`bytes` (or `binary`), `text`, `json`, `avro` or `protobuf`; the last two, and `json` too, by schemas."""
    json: bool
    """The same as `values="json"`: objects whose fields become columns."""
    registry: str
    """URLs of schema registries, commas between: each value begins with the id of its schema."""
    schema: str
    """The text of the schema of all values, if they have no such prefix."""
    message: str
    """The name of a message in a Protobuf file."""
    partition_by: str
    """`none`, or one of `month`, `day`, `hour` and fields, commas between."""
    event_time: str
    """The field whose time counts."""
    time_zone: str
    numbers_as_text: bool
    """A field of whole numbers becomes text where a text turns up."""
    format: str
    """`parquet`, `delta` or `iceberg`; parquet on file:// and hdfs://, delta on object stores."""
    catalog: str
    """The URL of Iceberg's catalog: sqlite:///…, postgresql://…, http://…"""
    namespace: str
    key: str
    """Keep the last value of each key in a table: the record's own `key`, or fields, commas between."""
    debezium: bool
    """Values are Debezium's change events: load the rows that they tell of; needs `json` and `key`."""
    debezium_unavailable: str
    """Debezium's `unavailable.value.placeholder`, where the source sets another than its default."""
    dead_letter: str | None
    target_size: str | int
    compression: str
    beginning: str
    """The first offset of new topics: `earliest`, `latest`, a time, or offsets as JSON."""
    fields: str
    """The only fields that become columns, commas between."""
    exclude_fields: str
    """The fields that do not become columns."""
    rename: Sequence[str]
    """Fields that were renamed: `OLD=NEW`, `object.OLD=object.NEW`, each perhaps with `TOPIC:` before it."""
    flatten: bool
    """Members of objects become columns of their own."""
    flatten_separator: str
    """The separator between the names of an object and its member; `_`."""
    where: str
    """An SQL expression over one row: only rows for which it is true are loaded."""
    where_absent_is_null: bool
    """A field that `where` names and no record has had yet is null; else the load is refused."""
    resume_from_table: bool
    """The lake's state was lost: go on from the progress in its tables."""
    accept_loss: bool
    read_committed: bool
    max_offsets: int


@dataclass(frozen=True, slots=True)
class LoadSettings:
    """The topics to load, the lake, and the form of its files."""

    selection: Selection
    url: str
    kafka: KafkaSettings
    shape: Shape = field(default_factory=Shape)
    values: ValueKind = field(default_factory=ValueKind)
    dead_letter: str | None = None
    target_bytes: int = 256 * MiB
    compression: str = "zstd"
    accept_loss: bool = False
    beginning: Limit = Edge.EARLIEST
    """The first offset of topics that the lake does not know yet."""
    absent_is_null: bool = False
    """True if the filter may name fields that no record has had yet."""
    resume: bool = False
    """True if a lake without a state goes on from the progress in its tables."""
    most_offsets: int = 20_000_000
    """Offsets in one round; at most so many are loaded again after a crash."""
    longest_range: int = 4_000_000
    reports: Reports = field(default_factory=Reports)


def load_settings(topics: Sequence[str], to: str | Path, options: LoadOptions) -> LoadSettings:
    """The settings for these options; LakeRefused where they make no sense together."""
    pattern, dead_letter = options.get("pattern", ""), options.get("dead_letter")
    if bool(topics) == bool(pattern):
        raise LakeRefused("name topics or a pattern, one of them")
    try:
        re.compile(pattern)
    except re.error as fault:
        raise LakeRefused(f"--pattern {pattern}: it is no regular expression: {fault}") from None
    if dead_letter is not None and dead_letter in topics:
        raise LakeRefused(f"topic {dead_letter} cannot take its own dead letters: they would be loaded again and again")
    size, values = options.get("target_size", "256m"), _value_kind(options)
    target_bytes = size if isinstance(size, int) else size_bytes(size)
    layout = parse_layout(
        options.get("partition_by") or ("none" if options.get("key") else "day"),
        time_zone=options.get("time_zone", "UTC"),
        event_time=options.get("event_time", ""),
        json=values.kind not in ("bytes", "text"),
    )
    where = _checked_where(options.get("where", "").strip())
    url = lake_url(to)
    format = options.get("format") or ("parquet" if url.startswith(("file:", "hdfs:")) else "delta")
    key = tuple(each.strip() for each in options.get("key", "").split(",") if each.strip())
    _check_format(format, layout, key, values, options)
    if format == "parquet" and url.startswith("s3:") and target_bytes > MOST_COPIED:
        raise LakeRefused("--target-size: S3 copies files of plain Parquet to their names, and none above 5g: give 4g")
    debezium = options.get("debezium", False)
    values = _placed(values, layout, key, where, format=format, debezium=debezium)
    return LoadSettings(
        selection=Selection(topics=tuple(sorted(set(topics))), pattern=pattern),
        url=url,
        kafka=KafkaSettings(
            options.get("bootstrap", "localhost:9092"),
            client_id="ottla-lake",
            read_committed=options.get("read_committed", True),
        ),
        shape=Shape(
            format=format,
            values=values.kind,
            layout=layout,
            catalog=options.get("catalog", ""),
            namespace=options.get("namespace", "ottla"),
            key=key,
            debezium=debezium,
            unavailable=options.get("debezium_unavailable") or PLACEHOLDER,
            flatten=values.flatten,
            where=where,
        ),
        absent_is_null=options.get("where_absent_is_null", False),
        values=values,
        dead_letter=dead_letter,
        target_bytes=target_bytes,
        compression=options.get("compression", "zstd"),
        beginning=parse_beginning(options.get("beginning") or "earliest"),
        resume=options.get("resume_from_table", False),
        accept_loss=options.get("accept_loss", False),
        most_offsets=options.get("max_offsets", 20_000_000),
        reports=reports(options),
    )


def _placed(
    values: ValueKind, layout: Layout, key: tuple[str, ...], where: str, *, format: str, debezium: bool
) -> ValueKind:
    """The kind of values with what a lake of this form asks of their columns."""
    return replace(
        values,
        plain=_in_values({*layout.fields, *key} - {"key"}, values, debezium=debezium),
        fixed=_fixed(layout, key, where, values, debezium=debezium),
        events=debezium,
        format=format,
        divides=layout.fields,
    )


def _value_kind(options: LoadOptions) -> ValueKind:
    """The kind of values for these options; LakeRefused where they make no sense together."""
    kind = options.get("values") or ("json" if options.get("json") else "bytes")
    kind = "bytes" if kind == "binary" else kind
    if options.get("json") and kind != "json":
        raise LakeRefused(f"--json and --values {kind} are not the same: give one of them")
    urls, schema = options.get("registry", ""), options.get("schema", "")
    if kind == "json" and (urls or schema):
        kind = "json-schema"
    if kind not in KINDS:
        raise LakeRefused(f"--values {kind}: it is one of binary, text, json, avro, protobuf")
    if kind in WITH_SCHEMA and bool(urls) == bool(schema):
        raise LakeRefused(f"--values {kind} needs --registry URL, or --schema FILE: one of them")
    if kind not in WITH_SCHEMA and (urls or schema):
        raise LakeRefused(f"--registry and --schema are for values of avro, protobuf and json, not {kind}")
    try:
        places = registry_urls(urls) if urls else ()
    except ValueError as fault:
        raise LakeRefused(f"--registry: {fault}") from fault
    rule = Rule(numbers_as_text=options.get("numbers_as_text", False))
    only, without = _names(options.get("fields", "")), _names(options.get("exclude_fields", ""))
    if (only or without) and kind not in COLUMNED:
        raise LakeRefused("--fields and --exclude-fields are for values that become columns, e.g. --json")
    flatten, renames = _separator(options), parse_renames(options.get("rename", ()))
    if (flatten or renames.by_topic) and kind not in COLUMNED:
        raise LakeRefused("--flatten and --rename are for values that become columns, e.g. --json")
    return ValueKind(kind, rule, places, schema, options.get("message", ""), only, without, flatten, renames)


def _fixed(layout: Layout, key: tuple[str, ...], where: str, values: ValueKind, *, debezium: bool) -> frozenset[str]:
    """The columns that no rename may touch; LakeRefused where --rename does."""
    separator = values.flatten or "."
    named = {*layout.fields, *key, layout.event_time} - {""}
    if where:
        from ottla.lake.where import RowFilter

        named |= {separator.join(path) for path in RowFilter(where).paths}
    named |= _in_values({*layout.fields, *key}, values, debezium=debezium)
    fixed = replace(values, fixed=frozenset(named))
    for rename in values.renames.all():
        if fixed.stays((*rename.place, rename.old)):
            raise LakeRefused(
                f"--rename {rename}: the lake is divided or filtered by {rename.old}, or has it for its key"
            )
    return fixed.fixed


def _in_values(names: Iterable[str], values: ValueKind, *, debezium: bool) -> frozenset[str]:
    """The names of a row's fields as values have them: within change events, those of the states."""
    separator = values.flatten or "."
    return frozenset(separator.join((*place, name)) for name in names for place in (STATES if debezium else ((),)))


def with_renames(settings: LoadSettings, told: Mapping[str, tuple[str, ...]]) -> LoadSettings:
    """The settings with the renames that the lake was told before; LakeRefused where those given contradict them."""
    renames = settings.values.renames.after(told)
    for topic in renames.by_topic:
        renames.of(topic)
    return replace(settings, values=replace(settings.values, renames=renames))


def _separator(options: LoadOptions) -> str:
    """The separator of names that --flatten joins; empty without it."""
    if not options.get("flatten"):
        return ""
    separator = options.get("flatten_separator", "_")
    if not separator or len(separator) > MOST_OF_A_SEPARATOR or not separator.isprintable() or " " in separator:
        raise LakeRefused(f"--flatten-separator '{separator}': it is one to {MOST_OF_A_SEPARATOR} visible characters")
    return separator


def _checked_where(text: str) -> str:
    """The filter's expression; LakeRefused where it is none."""
    if text:
        try:
            from ottla.lake.where import RowFilter
        except ModuleNotFoundError as fault:
            raise LakeRefused(f"--where needs {fault.name}: pip install 'ottla[lake]'") from fault
        RowFilter(text)
    return text


def _names(text: str) -> frozenset[str]:
    return frozenset(each.strip() for each in text.split(",") if each.strip())


def _check_format(format: str, layout: Layout, key: tuple[str, ...], values: ValueKind, options: LoadOptions) -> None:
    """Refuse options that a format does not have."""
    if format not in FORMATS:
        raise LakeRefused(f"--format {format}: it is one of {', '.join(FORMATS)}")
    if format == "parquet" and (hidden := [name for name in layout.fields if name.startswith(("_", "."))]):
        raise LakeRefused(
            f"--partition-by {hidden[0]}: readers of plain Parquet pass over folders whose names begin with "
            f"{hidden[0][0]}. Divide by another field, or load into --format delta"
        )
    if key and format == "parquet":
        raise LakeRefused("--key needs a table that can be changed: --format delta or iceberg")
    if key and values.kind not in COLUMNED and (others := sorted({*key} - {"key", "value"})):
        raise LakeRefused(f"--key {others[0]}: fields for a key need values with columns, e.g. --json")
    if format != "parquet" and (refused := [name for name in layout.fields if not is_allowed(name)]):
        raise LakeRefused(
            f"--partition-by {refused[0]}: a table cannot be divided by a column of this name. Divide by another "
            f"field, or load plain Parquet"
        )
    if options.get("debezium") and not (key and values.kind in COLUMNED):
        raise LakeRefused("--debezium needs --json and --key: change events change rows")
    if options.get("debezium_unavailable") and not options.get("debezium"):
        raise LakeRefused("--debezium-unavailable names a text of change events: it needs --debezium")
    if bool(options.get("catalog")) != (format == "iceberg"):
        raise LakeRefused("--format iceberg needs --catalog URL, and no other format takes one")
    if format == "iceberg" and layout.time_unit and (layout.event_time or layout.time_zone != "UTC"):
        raise LakeRefused(
            "--format iceberg divides by the records' own time in UTC: leave --event-time and --time-zone, or "
            "divide by fields"
        )
