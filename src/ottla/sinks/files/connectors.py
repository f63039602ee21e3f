"""Confluent's S3 and HDFS sinks by class and options, and what a task does by them."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Final, cast

from ottla.connect.config_def import ConfigDef, Password
from ottla.connect.errors import ConfigException
from ottla.connect.plugin import KAFKA_VERSION
from ottla.connect.plugins.base import Config, SinkConnector, SinkTask
from ottla.sinks.files import formats
from ottla.sinks.files.committing import ByBothOffsets, ByFirstOffset, Naming
from ottla.sinks.files.formats import Format
from ottla.sinks.files.options import HDFS, PARQUET_CODECS, S3, extractor_of, short_class, zone
from ottla.sinks.files.partitioners import (
    DAILY,
    HOURLY,
    FolderOf,
    TimeOf,
    by_fields,
    by_partition,
    by_time,
    next_rotation_ms,
    time_of,
)
from ottla.sinks.files.rotation import Rotation
from ottla.sinks.files.sink import FilePlan, FileSinkTask
from ottla.stores import LakeRefused, Store, lake_url, open_store

_EXTENSIONS: Final = {
    "JsonFormat": ".json", "AvroFormat": ".avro", "ParquetFormat": ".parquet", "StringFormat": ".txt",
}  # fmt: skip
_NO_EFFECT: Final = ("retry.backoff.ms", "shutdown.timeout.ms", "s3.part.size")
log = logging.getLogger("ottla.connect")


class _FilesSinkConnector(SinkConnector):
    """A sink whose options are `OPTIONS`."""

    OPTIONS: ClassVar[ConfigDef]
    version = KAFKA_VERSION
    runners = ("light", "spark")

    @classmethod
    def options(cls) -> ConfigDef:
        return cls.OPTIONS

    @classmethod
    def against_spark(cls, config: Config) -> str:
        """A job ends with the records that there are: no clock finishes its files."""
        options = cls.OPTIONS.parse(config)
        by_folder = short_class(options["partitioner.class"]) not in ("DefaultPartitioner", "FieldPartitioner")
        wallclock = not by_folder or extractor_of(options["timestamp.extractor"]) == "Wallclock"
        name = ""
        if options["rotate.schedule.interval.ms"] > 0:
            name = "rotate.schedule.interval.ms"
        elif wallclock and options["rotate.interval.ms"] > 0:
            name = "rotate.interval.ms with this partitioner and timestamp.extractor"
        elif wallclock and by_folder:
            name = "timestamp.extractor=Wallclock"
        return f"{name} goes by the clock, and jobs on Spark end with the records that there are" if name else ""

    @classmethod
    def tasks(cls, config: Config, most: int) -> list[dict[str, str]]:
        """As many tasks as may be: they share the partitions."""
        cls.task(config)
        if idle := [name for name in _NO_EFFECT if name in config and name in cls.OPTIONS.options]:
            log.warning("%s: no effect of %s", config.get("name", "a sink of files"), ", ".join(idle))
        return [dict(config)] * most


class S3SinkConnector(_FilesSinkConnector):
    """Writes records to files of a bucket of S3. A file is named by its first offset."""

    java_class = "io.confluent.connect.s3.S3SinkConnector"
    OPTIONS = S3

    @classmethod
    def task(cls, config: Config) -> SinkTask:
        options = S3.parse(config)
        format = _format(options, gzip=options["s3.compression.type"] == "gzip")
        naming = Naming(
            options["topics.dir"].strip(),
            _s3_extension(options),
            options["directory.delim"],
            options["file.delim"],
            options["filename.offset.zero.pad.width"],
        )
        plan = _plan(options, format, lambda: ByFirstOffset(_bucket(options), naming))
        return FileSinkTask(replace(plan, rotation=replace(plan.rotation, new_folder=True)))


class HdfsSinkConnector(_FilesSinkConnector):
    """Writes records to files of HDFS or of a local folder. A file is named by its first and last offset."""

    java_class = "io.confluent.connect.hdfs.HdfsSinkConnector"
    aliases = ("io.confluent.connect.hdfs3.Hdfs3SinkConnector",)
    OPTIONS = HDFS

    @classmethod
    def task(cls, config: Config) -> SinkTask:
        options = HDFS.parse(config)
        options |= {"json.decimal.format": "BASE64", "directory.delim": "/", "s3.compression.level": -1}
        naming = Naming(
            options["topics.dir"].strip(" /"), _extension(options), digits=options["filename.offset.zero.pad.width"]
        )
        url, logs = _hdfs_url(options), options["logs.dir"].strip(" /")
        if not logs:
            raise ConfigException.of("logs.dir", options["logs.dir"], "name a folder")
        plan = _plan(options, _format(options, gzip=False), lambda: ByBothOffsets(_opened(url), naming, logs))
        return FileSinkTask(plan)


def _hdfs_url(options: dict[str, Any]) -> str:
    given = [options[name] for name in ("store.url", "hdfs.url") if options[name]]
    if not given:
        raise ConfigException("set store.url to hdfs://HOST:PORT/FOLDER or file:///FOLDER")
    if len(set(given)) > 1:
        raise ConfigException("store.url and hdfs.url differ: give one of them")
    url = given[0].rstrip("/")
    try:
        found = lake_url(f"{url}/any" if _is_root(url) else url)
    except LakeRefused as fault:
        raise ConfigException.of("store.url", given[0], str(fault)) from None
    if not found.startswith(("hdfs:", "file:")):
        raise ConfigException.of("store.url", given[0], "give hdfs:// or file://; for S3 there is S3SinkConnector")
    return url if _is_root(url) else found


def _is_root(url: str) -> bool:
    return url.startswith("hdfs://") and "/" not in url.removeprefix("hdfs://")


def _opened(url: str) -> Store:
    """The store of a URL. A lake has a folder of HDFS; these files may lie below its root."""
    if not _is_root(url):
        return open_store(url)
    from ottla.stores.hdfs import HdfsStore
    from ottla.stores.urls import LakeUrlParts

    return HdfsStore(LakeUrlParts("hdfs", url.removeprefix("hdfs://"), ""))


def _bucket(options: dict[str, Any]) -> Store:
    """The bucket by the options, with the environment's credentials where they name none."""
    from ottla.stores.object_client import Patience
    from ottla.stores.objects import ObjectStore
    from ottla.stores.urls import place_of

    given = {"region": options["s3.region"]}
    if options["store.url"]:
        given["endpoint"] = options["store.url"]
    secret = options["aws.secret.access.key"]
    if options["aws.access.key.id"]:
        given["access_key_id"] = options["aws.access.key.id"]
        given["secret_access_key"] = secret.value if isinstance(secret, Password) else secret
    return ObjectStore(place_of(f"s3://{options['s3.bucket.name']}"), Patience(seconds=30), given)


def _extension(options: dict[str, Any]) -> str:
    format = short_class(options["format.class"])
    return options["format.bytearray.extension"] if format == "ByteArrayFormat" else _EXTENSIONS[format]


def _s3_extension(options: dict[str, Any]) -> str:
    """On S3 the extension names the codec, too."""
    format = short_class(options["format.class"])
    if format == "ParquetFormat":
        return PARQUET_CODECS[options["parquet.codec"]] + ".parquet"
    packed = ".gz" if options["s3.compression.type"] == "gzip" and format != "AvroFormat" else ""
    return _extension(options) + packed


def _format(options: dict[str, Any], *, gzip: bool) -> Format:
    level = None if not gzip else 6 if options["s3.compression.level"] < 0 else options["s3.compression.level"]
    match short_class(options["format.class"]):
        case "AvroFormat":
            return lambda schema: formats.Avro(schema, options["avro.codec"])
        case "ParquetFormat":
            codec = options["parquet.codec"]
            return lambda schema: formats.Parquet(schema, codec)
        case "JsonFormat":
            piece = formats.json_line(options["json.decimal.format"])
        case "ByteArrayFormat":
            separator = options["format.bytearray.separator"]
            piece = formats.raw(os.linesep.encode() if separator is None else separator.encode())
        case _:
            piece = formats.text_line
    return lambda schema: formats.LineFile(piece, level)


def _plan(options: dict[str, Any], format: Format, committer: Callable[[], Any]) -> FilePlan:
    partitioner, extractor = short_class(options["partitioner.class"]), extractor_of(options["timestamp.extractor"])
    folder_of, time = _folders(options, partitioner, extractor)
    interval, schedule = options["rotate.interval.ms"], options["rotate.schedule.interval.ms"]
    next_ms = None
    if schedule > 0:
        next_ms = partial(_next, interval_ms=schedule, zone=zone(_named(options, "timezone")))
    if interval > 0 and time is None:
        time = time_of("Wallclock", "")
        extractor = "Wallclock"
    by_clock = extractor == "Wallclock" and interval > 0
    return FilePlan(
        folder_of, time, format, Rotation(options["flush.size"], interval, by_clock=by_clock), committer,
        options["behavior.on.null.values"].lower(), next_ms,
    )  # fmt: skip


def _next(now_ms: int, *, interval_ms: int, zone: Any) -> int:
    return next_rotation_ms(now_ms, interval_ms, zone)


def _folders(options: dict[str, Any], partitioner: str, extractor: str) -> tuple[FolderOf, TimeOf | None]:
    """The folder of a record, and its time where that has a part in it."""
    delimiter = options["directory.delim"]
    if partitioner == "DefaultPartitioner":
        return by_partition, None
    if partitioner == "FieldPartitioner":
        names = [name for name in options["partition.field.name"] if name]
        if not names:
            raise ConfigException("FieldPartitioner divides by partition.field.name: name the fields")
        return by_fields(names, delimiter), None
    where, time = zone(_named(options, "timezone")), time_of(extractor, options["timestamp.field"])
    _named(options, "locale")
    if partitioner != "TimeBasedPartitioner":
        pattern, duration = DAILY if partitioner == "DailyPartitioner" else HOURLY
        return by_time(pattern.format(delimiter), duration, where), time
    duration, pattern = options["partition.duration.ms"], _named(options, "path.format")
    if duration <= 0:
        raise ConfigException.of("partition.duration.ms", duration, "TimeBasedPartitioner needs a time above 0")
    return by_time(pattern.removesuffix(delimiter), duration, where), time


def _named(options: dict[str, Any], name: str) -> str:
    if not options[name]:
        raise ConfigException.of(name, options[name], f"folders and schedules by time need it: set {name}")
    return cast("str", options[name])
