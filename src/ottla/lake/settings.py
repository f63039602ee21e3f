"""What a loader is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ottla.lake.layout import Layout, parse_layout
from ottla.lake.report_options import ReportOptions, Reports, reports
from ottla.lake.shape import Shape
from ottla.lake.stores import LakeRefused, lake_url
from ottla.lake.types import Rule
from ottla.spark.kafka_settings import KafkaSettings
from ottla.spark.options import Selection

MiB = 1 << 20
FORMATS = ("parquet", "delta", "iceberg")
CODECS = ("zstd", "snappy", "lz4", "gzip", "none")


class LoadOptions(ReportOptions, total=False):
    """The options of `ottla.lake.load`, as `ottla lake load` has them; all may be left out."""

    pattern: str
    """All topics whose whole name matches, instead of names."""
    bootstrap: str
    json: bool
    """Values are JSON objects: make columns of their fields."""
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
    dead_letter: str | None
    target_size: str | int
    compression: str
    resume_from_table: bool
    """The lake's state was lost: go on from what its tables say is loaded."""
    accept_loss: bool
    read_committed: bool
    max_offsets: int


@dataclass(frozen=True, slots=True)
class LoadSettings:
    """Which topics go where, and how their files shall be."""

    selection: Selection
    url: str
    kafka: KafkaSettings
    shape: Shape = field(default_factory=Shape)
    rule: Rule = field(default_factory=Rule)
    dead_letter: str | None = None
    target_bytes: int = 256 * MiB
    compression: str = "zstd"
    accept_loss: bool = False
    resume: bool = False
    """Whether a lake without a state goes on from what its tables say."""
    most_offsets: int = 20_000_000
    """Offsets in one round: what is done over after a crash is at most that much."""
    longest_range: int = 4_000_000
    reports: Reports = field(default_factory=Reports)


def load_settings(topics: Sequence[str], to: str | Path, options: LoadOptions) -> LoadSettings:
    """What the options say, understood; LakeRefused where they make no sense together."""
    pattern, dead_letter = options.get("pattern", ""), options.get("dead_letter")
    if bool(topics) == bool(pattern):
        raise LakeRefused("name topics or a pattern, one of them")
    if dead_letter is not None and dead_letter in topics:
        raise LakeRefused(f"topic {dead_letter} cannot take its own dead letters: they would be loaded again and again")
    size, json = options.get("target_size", "256m"), options.get("json", False)
    layout = parse_layout(
        options.get("partition_by") or ("none" if options.get("key") else "day"),
        time_zone=options.get("time_zone", "UTC"),
        event_time=options.get("event_time", ""),
        json=json,
    )
    url = lake_url(to)
    format = options.get("format") or ("parquet" if url.startswith(("file:", "hdfs:")) else "delta")
    key = tuple(each.strip() for each in options.get("key", "").split(",") if each.strip())
    _check_format(format, layout, key, options)
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
            values="json" if json else "bytes",
            layout=layout,
            catalog=options.get("catalog", ""),
            namespace=options.get("namespace", "ottla"),
            key=key,
            debezium=options.get("debezium", False),
        ),
        rule=Rule(numbers_as_text=options.get("numbers_as_text", False)),
        dead_letter=dead_letter,
        target_bytes=size if isinstance(size, int) else size_bytes(size),
        compression=options.get("compression", "zstd"),
        resume=options.get("resume_from_table", False),
        accept_loss=options.get("accept_loss", False),
        most_offsets=options.get("max_offsets", 20_000_000),
        reports=reports(options),
    )


def _check_format(format: str, layout: Layout, key: tuple[str, ...], options: LoadOptions) -> None:
    """Refuse what a format has not."""
    if format not in FORMATS:
        raise LakeRefused(f"--format {format}: it is one of {', '.join(FORMATS)}")
    if key and format == "parquet":
        raise LakeRefused("--key needs a table that can be changed: --format delta or iceberg")
    if options.get("debezium") and not (key and options.get("json")):
        raise LakeRefused("--debezium needs --json and --key: change events change rows")
    if bool(options.get("catalog")) != (format == "iceberg"):
        raise LakeRefused("--format iceberg needs --catalog URL, and no other format takes one")
    if format == "iceberg" and layout.time_unit and (layout.event_time or layout.time_zone != "UTC"):
        raise LakeRefused(
            "--format iceberg divides by the records' own time in UTC: leave --event-time and --time-zone, or "
            "divide by fields"
        )


def size_bytes(text: str) -> int:
    """128m, 1g, 64MB, 1000000; ValueError for anything else."""
    digits = text.strip().lower().removesuffix("ib").removesuffix("b")
    unit = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}.get(digits[-1:], 1)
    number = digits if unit == 1 else digits[:-1]
    if not number.isdigit() or not int(number):
        raise ValueError(f"not a size: '{text}'; write e.g. 64m, 512MB or 1g")
    return int(number) * unit
