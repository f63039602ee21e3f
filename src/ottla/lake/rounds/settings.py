"""A loader's settings, and how they are made from its options."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from ottla.client.registry_client import registry_urls
from ottla.config.profiles import bootstrap_servers, registry_url
from ottla.formats.iso_times import Nanoseconds
from ottla.lake.columns.layout import Layout, parse_layout
from ottla.lake.columns.names import is_allowed
from ottla.lake.columns.renaming import parse_renames
from ottla.lake.columns.shape import PLACEHOLDER, LakeShape
from ottla.lake.columns.steps import RowSteps
from ottla.lake.columns.types import Rule
from ottla.lake.columns.values import WITH_SCHEMA, ValueKind
from ottla.lake.options import DEFAULTS, LoadOptions, checked, with_defaults
from ottla.lake.rounds.beginning import parse_beginning
from ottla.rows.kafka_settings import KafkaSettings
from ottla.rows.plan import Edge, Limit
from ottla.rows.selection import Selection
from ottla.stores import LakeRefused, catalog_url, lake_url

MiB = 1 << 20
MOST_COPIED = 4 << 30
"""The largest target size on S3, below the most that one copy on the server may have: files are a little larger."""
MOST_OF_A_SEPARATOR = 8
STATES = (("before",), ("after",), ("payload", "before"), ("payload", "after"))
"""The places of the row's fields in a change event."""
COLUMNED = ("json", *WITH_SCHEMA)


@dataclass(frozen=True, slots=True)
class Reports:
    """The reports that a loader makes to others, and where they go."""

    group: str = ""
    audit_topic: str = ""
    """The audit topic; if empty, no audit messages are sent."""
    markers: bool = False
    metrics_port: int | None = None


@dataclass(frozen=True, slots=True)
class LoadSettings:
    """The topics to load, the lake, and the form of its files."""

    selection: Selection
    url: str
    kafka: KafkaSettings
    shape: LakeShape = field(default_factory=LakeShape)
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


def load_settings(topics: Sequence[str], to: str | Path, given: Mapping[str, object]) -> LoadSettings:
    """The settings for these options; LakeRefused where they make no sense together."""
    options = with_defaults(_of_profile(checked(given)))
    pattern, dead_letter = options["pattern"], options["dead_letter"] or None
    if bool(topics) == bool(pattern):
        raise LakeRefused("name topics or a pattern, one of them")
    try:
        re.compile(pattern)
    except re.error as fault:
        raise LakeRefused(f"--pattern {pattern} is not a regular expression: {fault}") from None
    if dead_letter is not None and dead_letter in topics:
        raise LakeRefused(f"topic {dead_letter} cannot take its own dead letters: they would be loaded again and again")
    target_bytes, url = int(options["target_size"]), lake_url(to)
    shape, values = _shape(url, options)
    if shape.format == "parquet" and url.startswith("s3:") and target_bytes > MOST_COPIED:
        raise LakeRefused("--target-size: S3 copies files of plain Parquet to their names, and none above 5g: give 4g")
    return LoadSettings(
        selection=Selection(topics=tuple(sorted(set(topics))), pattern=pattern),
        url=url,
        kafka=KafkaSettings(options["bootstrap"], client_id="ottla-lake", read_committed=options["read_committed"]),
        shape=shape,
        absent_is_null=options["where_absent_is_null"],
        values=values,
        dead_letter=dead_letter,
        target_bytes=target_bytes,
        compression=options["compression"],
        beginning=parse_beginning(options["beginning"]),
        resume=options["resume_from_table"],
        accept_loss=options["accept_loss"],
        most_offsets=options["max_offsets"],
        reports=Reports(
            group=options["group"],
            audit_topic=options["audit_topic"] if options["audit"] else "",
            markers=options["markers"],
            metrics_port=options["metrics_port"],
        ),
    )


def _shape(url: str, options: LoadOptions) -> tuple[LakeShape, ValueKind]:
    """The form of the lake's files, and of the values that they are made of."""
    values = _value_kind(options)
    key = tuple(each.strip() for each in str(options["key"]).split(",") if each.strip())
    layout = parse_layout(
        str(options["partition_by"]) or ("none" if key else "day"),
        time_zone=options["time_zone"],
        event_time=options["event_time"],
        json=values.kind not in ("bytes", "text"),
    )
    where = _checked_where(options["where"].strip())
    format = options["format"] or ("parquet" if url.startswith(("file:", "hdfs:")) else "delta")
    _check_format(format, layout, key, values, options)
    debezium = options["debezium"]
    shape = LakeShape(
        format=format,
        values=values.kind,
        layout=layout,
        catalog=catalog_url(options["catalog"]) if options["catalog"] else "",
        namespace=options["namespace"],
        key=key,
        debezium=debezium,
        unavailable=options["debezium_unavailable"] or PLACEHOLDER,
        flatten=values.flatten,
        where=where,
    )
    return shape, _placed(values, layout, key, where, format=format, debezium=debezium)


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


def _of_profile(given: LoadOptions) -> LoadOptions:
    """The options, with the addresses of the user's profile or environment where a load needs one and names none."""
    found: LoadOptions = {**given}
    if "bootstrap" not in given:
        found["bootstrap"] = bootstrap_servers(os.environ).address
    if given.get("values") in ("avro", "protobuf") and not (given.get("registry") or given.get("schema")):
        registry = registry_url(os.environ)
        found["registry"] = "" if registry.is_default else registry.address
    return found


def _value_kind(options: LoadOptions) -> ValueKind:
    """The kind of values for these options; LakeRefused where they make no sense together."""
    kind = "json" if options["json"] and options["values"] == DEFAULTS["values"] else options["values"]
    kind = "bytes" if kind == "binary" else kind
    if options["json"] and kind != "json":
        raise LakeRefused(f"--json and --values {kind} contradict each other: give one of them")
    urls, schema = options["registry"], options["schema"]
    if kind == "json" and (urls or schema):
        kind = "json-schema"
    if kind in WITH_SCHEMA and bool(urls) == bool(schema):
        raise LakeRefused(f"--values {kind} needs --registry URL, or --schema FILE: one of them")
    if kind not in WITH_SCHEMA and (urls or schema):
        raise LakeRefused(f"--registry and --schema are for values of avro, protobuf and json, not {kind}")
    if options["message"] and kind != "protobuf":
        raise LakeRefused(f"--message names a message of a Protobuf schema, and the values are {kind}")
    try:
        places = registry_urls(urls, "--registry") if urls else ()
    except ValueError as fault:
        raise LakeRefused(str(fault)) from fault
    rule = Rule(numbers_as_text=options["numbers_as_text"])
    only, without = _names(str(options["fields"])), _names(str(options["exclude_fields"]))
    if (only or without) and kind not in COLUMNED:
        raise LakeRefused("--fields and --exclude-fields are for values that become columns, e.g. --json")
    flatten, renames = _separator(options), parse_renames(options["rename"])
    if (flatten or renames.by_topic) and kind not in COLUMNED:
        raise LakeRefused("--flatten and --rename are for values that become columns, e.g. --json")
    return ValueKind(
        kind, rule, places, schema, options["message"], only, without, flatten, renames, _nanoseconds(kind, options)
    )


def _nanoseconds(kind: str, options: LoadOptions) -> Nanoseconds:
    found = cast("Nanoseconds", options["nanoseconds"])
    if found != DEFAULTS["nanoseconds"] and kind not in WITH_SCHEMA:
        raise LakeRefused("--nanoseconds is for values whose schema has times: avro, protobuf, or json with a schema")
    if found == "keep" and kind != "protobuf":
        raise LakeRefused(
            "--nanoseconds keep is for Protobuf: Avro's timestamp-nanos keep theirs anyway, and a date-time of JSON "
            "Schema has none. Give refuse or cut"
        )
    return found


def _fixed(layout: Layout, key: tuple[str, ...], where: str, values: ValueKind, *, debezium: bool) -> frozenset[str]:
    """The columns that no rename may touch; LakeRefused where --rename does."""
    separator = values.flatten or "."
    named = {*layout.fields, *key, layout.event_time} - {""}
    if where:
        from ottla.lake.columns.where import RowFilter

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


def with_steps(settings: LoadSettings, steps: RowSteps) -> LoadSettings:
    """The settings with what is done to records before they are rows; LakeRefused where both do not go together."""
    for given, option in (
        (settings.shape.debezium, "--debezium"),
        (settings.values.renames.by_topic, "--rename"),
        (settings.resume, "--resume-from-table"),
    ):
        if given:
            raise LakeRefused(f"{option} does not go together with transforms, which change the columns of values")
    steps = steps.reading(settings.values.kind)
    shape, values = replace(settings.shape, steps=steps), replace(settings.values, steps=steps)
    return replace(settings, shape=shape, values=values)


def _separator(options: LoadOptions) -> str:
    """The separator of names that --flatten joins; empty without it."""
    separator = options["flatten_separator"]
    if not options["flatten"]:
        if separator != DEFAULTS["flatten_separator"]:
            raise LakeRefused(f"--flatten-separator {separator} has an effect only with --flatten: give both")
        return ""
    if not separator or len(separator) > MOST_OF_A_SEPARATOR or not separator.isprintable() or " " in separator:
        raise LakeRefused(
            f"--flatten-separator '{separator}': give one to {MOST_OF_A_SEPARATOR} visible characters without a space"
        )
    return separator


def _checked_where(text: str) -> str:
    """The filter's expression; LakeRefused where it cannot be one."""
    if text:
        try:
            from ottla.lake.columns.where import RowFilter
        except ModuleNotFoundError as fault:
            raise LakeRefused(f"--where needs {fault.name}: pip install 'ottla[lake]'") from fault
        RowFilter(text)
    return text


def _names(text: str) -> frozenset[str]:
    return frozenset(each.strip() for each in text.split(",") if each.strip())


def _check_format(format: str, layout: Layout, key: tuple[str, ...], values: ValueKind, options: LoadOptions) -> None:
    """Refuse options that a format does not have."""
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
    if options["debezium"] and not (key and values.kind in COLUMNED):
        raise LakeRefused("--debezium needs --json and --key: change events change rows")
    if options["debezium_unavailable"] and not options["debezium"]:
        raise LakeRefused("--debezium-unavailable names a text of change events: it needs --debezium")
    if bool(options["catalog"]) != (format == "iceberg"):
        raise LakeRefused("--format iceberg needs --catalog URL, and no other format takes one")
    if format == "iceberg" and layout.time_unit and (layout.event_time or layout.time_zone != "UTC"):
        raise LakeRefused(
            "--format iceberg divides by the records' own time in UTC: leave --event-time and --time-zone, or "
            "divide by fields"
        )
