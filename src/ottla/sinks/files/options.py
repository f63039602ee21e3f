"""The options of the S3 and the HDFS sink, by Confluent's names and defaults, each declared once."""

from __future__ import annotations

from typing import Any, Final
from zoneinfo import ZoneInfo

from ottla.config.option import nearest
from ottla.connect.checks import between, one_of
from ottla.connect.config_def import ConfigDef, Importance, Option, Type, Validator
from ottla.connect.errors import ConfigException
from ottla.sinks.files.formats import AVRO_CODECS
from ottla.sinks.files.joda import time_pattern

_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
FORMATS: Final = ("JsonFormat", "AvroFormat", "ParquetFormat", "ByteArrayFormat", "StringFormat")
PARTITIONERS: Final = (
    "DefaultPartitioner", "FieldPartitioner", "TimeBasedPartitioner", "DailyPartitioner", "HourlyPartitioner",
)  # fmt: skip
EXTRACTORS: Final = ("Wallclock", "Record", "RecordField")
_EXTRACTOR_CLASS: Final = "io.confluent.connect.storage.partitioner.TimeBasedPartitioner$"
PARQUET_CODECS: Final = {"snappy": ".snappy", "gzip": ".gz", "none": "", "lz4": ".lz4", "zstd": ".zstd"}
"""The codecs of Parquet, and what each adds to the extension of a file on S3."""


def class_of(known: tuple[str, ...]) -> Validator:
    """The value is one of Confluent's classes, or the last part of its name."""

    def check(name: str, value: Any) -> None:
        short = short_class(value)
        if short not in known:
            raise ConfigException.of(name, value, f"{short} is unknown{nearest(short, known)}: give {', '.join(known)}")
        if value != short and not value.startswith("io.confluent.connect."):
            raise ConfigException.of(name, value, f"of classes there are Confluent's alone: give {short}")

    return check


def short_class(value: Any) -> str:
    """The last part of a class name."""
    return str(value or "").rpartition(".")[2]


def extractor_of(value: str) -> str:
    """`Record` for that word and for the class of that extractor."""
    return value.removeprefix(_EXTRACTOR_CLASS).removesuffix("TimestampExtractor")


def _extractor(name: str, value: Any) -> None:
    if extractor_of(value or "") not in EXTRACTORS:
        raise ConfigException.of(name, value, f"give {', '.join(EXTRACTORS)}{nearest(value or '', EXTRACTORS)}")


def _zone(name: str, value: Any) -> None:
    if value:
        zone(value)


def zone(name: str) -> ZoneInfo:
    """A time zone by its name."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ConfigException.of("timezone", name, "give a name such as UTC or Europe/Vienna") from None


def _locale(name: str, value: Any) -> None:
    if value and not value.lower().startswith("en"):
        raise ConfigException.of(name, value, "names of months and days are English here: give en")


def _pattern(name: str, value: Any) -> None:
    try:
        time_pattern(value or "")
    except ValueError as fault:
        raise ConfigException.of(name, value, str(fault)) from None


def only(*values: Any, why: str) -> Validator:
    """Nothing but these values is there yet."""

    def check(name: str, value: Any) -> None:
        if value not in values:
            raise ConfigException.of(name, value, why)

    return check


def _storage(flush: Option, format: str) -> list[Option]:
    return [
        Option("format.class", Type.CLASS, format, _HIGH, "The format of files.", class_of(FORMATS)),
        flush,
        Option("rotate.interval.ms", Type.LONG, -1, _HIGH, "Finish files before a record that is so much later than "
               "their first; -1: never.", between(-1)),
        Option("rotate.schedule.interval.ms", Type.LONG, -1, _MEDIUM, "Finish files at each multiple of this time "
               "since midnight in timezone; -1: never. What a file holds then depends on the clock.", between(-1)),
        Option("retry.backoff.ms", Type.LONG, 5000, _LOW, "Has no effect: the store's client waits by itself."),
        Option("shutdown.timeout.ms", Type.LONG, 3000, _MEDIUM, "Has no effect."),
        Option("filename.offset.zero.pad.width", Type.INT, 10, _LOW, "The digits of an offset in a file's name.",
               between(0)),
        Option("schema.compatibility", Type.STRING, "NONE", _HIGH, "A record of another schema begins a new file.",
               only("NONE", why="schemas are not projected here: NONE begins a new file where the schema changes")),
        Option("avro.codec", Type.STRING, "null", _LOW, "The codec of Avro files.", one_of(*AVRO_CODECS)),
        Option("parquet.codec", Type.STRING, "snappy", _LOW, "The codec of Parquet files.", one_of(*PARQUET_CODECS)),
        Option("topics.dir", Type.STRING, "topics", _HIGH, "The folder of all topics."),
        Option("partitioner.class", Type.CLASS, "DefaultPartitioner", _HIGH, "How a topic's records are divided into "
               "folders.", class_of(PARTITIONERS)),
        Option("partition.field.name", Type.LIST, [], _MEDIUM, "The fields of FieldPartitioner."),
        Option("partition.duration.ms", Type.LONG, -1, _MEDIUM, "The span of time of a folder of "
               "TimeBasedPartitioner."),
        Option("path.format", Type.STRING, "", _MEDIUM, "The folder of TimeBasedPartitioner as a pattern of Joda: "
               "'year'=YYYY/'month'=MM/'day'=dd.", _pattern),
        Option("locale", Type.STRING, "", _MEDIUM, "The language of months and days: en.", _locale),
        Option("timezone", Type.STRING, "", _MEDIUM, "The zone of folders by time and of rotate.schedule.interval.ms.",
               _zone),
        Option("timestamp.extractor", Type.STRING, "Wallclock", _MEDIUM, "The time of a record: Wallclock, Record, or "
               "RecordField.", _extractor),
        Option("timestamp.field", Type.STRING, "timestamp", _MEDIUM, "The field of RecordField; dots lead into "
               "structs."),
    ]  # fmt: skip


def _flush(default: Any, least: int) -> Option:
    more = {} if default is None else {"default": default}
    return Option("flush.size", Type.INT, importance=_HIGH, doc="Finish the files of a partition of the topic after "
                  "so many records.", check=between(least), **more)  # fmt: skip


_BYTES: Final = (
    Option("format.bytearray.extension", Type.STRING, ".bin", _LOW, "The extension of ByteArrayFormat."),
    Option("format.bytearray.separator", Type.STRING, None, _LOW, "What stands behind each value of ByteArrayFormat; "
           "the end of a line by default."),
    Option("behavior.on.null.values", Type.STRING, "fail", _LOW, "fail refuses a record without a value, ignore leaves "
           "it out.", one_of("fail", "ignore", any_case=True)),
)  # fmt: skip
_KEYS: Final = "keys and headers are not written to files of their own here: leave it out"
S3: Final = ConfigDef(
    Option("s3.bucket.name", Type.STRING, importance=_HIGH, doc="The bucket."),
    Option("s3.region", Type.STRING, "us-west-2", _MEDIUM, "The region of the bucket."),
    Option("store.url", Type.STRING, None, _HIGH, "Another endpoint than Amazon's: http://HOST:PORT."),
    Option("s3.part.size", Type.INT, 26_214_400, _HIGH, "Has no effect: parts are of 8 MiB.", between(5 << 20)),
    Option("s3.compression.type", Type.STRING, "none", _LOW, "gzip packs files of JSON and bytes.",
           one_of("none", "gzip")),
    Option("s3.compression.level", Type.INT, -1, _LOW, "The level of gzip: 0 to 9, -1 for gzip's own default.",
           between(-1, 9)),
    Option("aws.access.key.id", Type.STRING, "", _MEDIUM, "The key's name; without it the environment has it."),
    Option("aws.secret.access.key", Type.PASSWORD, "", _MEDIUM, "The key's secret."),
    Option("s3.path.style.access.enabled", Type.BOOLEAN, True, _LOW, "The bucket is part of the path of an address.",
           only(True, why="addresses have the bucket in their path here")),
    Option("storage.class", Type.CLASS, "io.confluent.connect.s3.storage.S3Storage", _LOW, "Confluent's class for S3.",
           only("io.confluent.connect.s3.storage.S3Storage", why="there is no other storage in this connector")),
    Option("directory.delim", Type.STRING, "/", _MEDIUM, "What stands between folders."),
    Option("file.delim", Type.STRING, "+", _MEDIUM, "What stands between the parts of a file's name."),
    Option("json.decimal.format", Type.STRING, "BASE64", _LOW, "Write decimals in base64 or as numbers.",
           one_of("BASE64", "NUMERIC", any_case=True)),
    Option("store.kafka.keys", Type.BOOLEAN, False, _LOW, "Not there yet.", only(False, why=_KEYS)),
    Option("store.kafka.headers", Type.BOOLEAN, False, _LOW, "Not there yet.", only(False, why=_KEYS)),
    *_BYTES,
    *_storage(_flush(None, 1), "AvroFormat"),
)  # fmt: skip
HDFS: Final = ConfigDef(
    Option("hdfs.url", Type.STRING, None, _HIGH, "Where the files lie: hdfs://HOST:PORT, with a folder if you like."),
    Option("store.url", Type.STRING, None, _HIGH, "The same as hdfs.url; file:///FOLDER for a local folder."),
    Option("logs.dir", Type.STRING, "logs", _HIGH, "The folder of notes about files that are on their way."),
    Option("storage.class", Type.CLASS, "io.confluent.connect.hdfs.storage.HdfsStorage", _LOW, "Confluent's class.",
           only("io.confluent.connect.hdfs.storage.HdfsStorage", "io.confluent.connect.hdfs3.storage.HdfsStorage",
                why="the scheme of store.url chooses the storage")),
    Option("hive.integration", Type.BOOLEAN, False, _HIGH, "Not there.",
           only(False, why="Hive's tables are not made here")),
    Option("hdfs.authentication.kerberos", Type.BOOLEAN, False, _HIGH, "Not there.",
           only(False, why="Kerberos is not spoken here")),
    *_BYTES,
    *_storage(_flush(1000, 1), "AvroFormat"),
)  # fmt: skip
