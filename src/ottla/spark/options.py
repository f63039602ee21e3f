"""The options of `format("ottla")`: names, defaults and refusals of Spark's own Kafka connector, each declared once.

Options arrive as text under names of any case, from source.py, and leave as `SourceOptions` and `SinkOptions`; settings
under `kafka.` are judged in kafka_settings.py.
"""

from __future__ import annotations

import difflib
import json
import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.kernel.ids import TopicPartition
from ottla.rows.connections import cluster
from ottla.rows.kafka_settings import KafkaSettings, consumer_settings, producer_settings
from ottla.rows.plan import Edge, Limit, SpecificOffsets, Timestamps, check_limits, flat
from ottla.rows.selection import COLUMNS, HEADERS, Selection
from ottla.rows.survey import FetchRetries, Survey
from ottla.rows.value_options import BYTES, MODES, VALUE, VALUE_ERROR, ValueOptions, value_options
from ottla.spark.delivery import SparkDelivery, delivery_options

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

    from ottla.spark.written_values import WrittenBy

log = logging.getLogger("ottla.spark")


@dataclass(frozen=True, slots=True)
class SparkOption:
    """One declared option; `where` is source, batch source, stream source, sink or batch sink."""

    name: str
    default: str
    where: str
    doc: str


OPTIONS: tuple[SparkOption, ...] = (
    SparkOption("subscribe", "", "source", "Topics, comma-separated. One of subscribe, subscribePattern, assign."),
    SparkOption(
        "subscribePattern", "", "source", "A regular expression that whole topic names match; internal ones never."
    ),
    SparkOption("assign", "", "source", 'Partitions: {"topicA":[0,1],"topicB":[2]}.'),
    SparkOption(
        "startingOffsets",
        "latest in a stream, earliest in a batch",
        "source",
        'earliest, latest (streams only) or {"topicA":{"0":23,"1":-2}}; -2 is earliest, -1 latest. '
        "A stream that has a checkpoint goes on from there; partitions found later start at earliest.",
    ),
    SparkOption("startingTimestamp", "", "source", "Milliseconds; goes before the two other starting options."),
    SparkOption("startingOffsetsByTimestamp", "", "source", 'Milliseconds per partition: {"topicA":{"0":1000}}.'),
    SparkOption(
        "startingOffsetsByTimestampStrategy",
        "error",
        "source",
        "error or latest: what to do where no record is as late as the starting time.",
    ),
    SparkOption("endingOffsets", "latest", "batch source", 'latest or {"topicA":{"0":23,"1":-1}}.'),
    SparkOption("endingTimestamp", "", "batch source", "Milliseconds; goes before the two other ending options."),
    SparkOption("endingOffsetsByTimestamp", "", "batch source", 'Milliseconds per partition: {"topicA":{"0":1000}}.'),
    SparkOption("maxOffsetsPerTrigger", "", "stream source", "At most so many offsets in a trigger, shared by volume."),
    SparkOption("minOffsetsPerTrigger", "", "stream source", "Wait for so many offsets, at most maxTriggerDelay."),
    SparkOption("maxTriggerDelay", "15m", "stream source", "How long minOffsetsPerTrigger may hold records back."),
    SparkOption("minPartitions", "", "source", "Split ranges until there are about so many tasks."),
    SparkOption("maxRecordsPerPartition", "", "source", "Split ranges longer than this."),
    SparkOption("failOnDataLoss", "true", "source", "Fail where records are gone that the plan counts on; else warn."),
    SparkOption(
        "kafkaConsumer.pollTimeoutMs", "120000", "source", "How long a task waits for records that must be there."
    ),
    SparkOption("fetchOffset.numRetries", "3", "source", "How often the planner asks again for offsets."),
    SparkOption("fetchOffset.retryIntervalMs", "10", "source", "How long it waits between."),
    SparkOption("groupIdPrefix", "spark-kafka-source", "source", "Prefix of the consumer group that shows progress."),
    SparkOption("includeHeaders", "false", "source and sink", "Whether there is a column headers."),
    SparkOption("publishGroup", "", "stream source", "That group's name, in place of one that begins with the prefix."),
    SparkOption("publishOffsets", "true", "stream source", "Commit what was read to a consumer group, for lag tools."),
    SparkOption(
        "columns", "", "source", "Only these columns, comma-separated: Spark does not prune for Python sources."
    ),
    SparkOption("pushdown", "false", "batch source", "Take filters; needs spark.sql.python.filterPushdown.enabled."),
    SparkOption(
        "value.format",
        "binary",
        "source and sink",
        "What values are: binary, text, avro, protobuf or json. The last three make the column value a struct.",
    ),
    SparkOption(
        "registry.url",
        "",
        "source and sink",
        "The schema registry, or several of its URLs with commas between. Values then start with a schema id. "
        "Credentials come from the environment: OTTLA_REGISTRY_USER and OTTLA_REGISTRY_PASSWORD, or "
        "OTTLA_REGISTRY_TOKEN.",
    ),
    SparkOption("value.subject", "TOPIC-value", "source and sink", "The subject in the registry."),
    SparkOption(
        "value.schema",
        "",
        "source and sink",
        "The text of a schema: what values are read as, or written as; else the latest of the subject. Without a "
        "registry values have no schema id, and all are of this schema.",
    ),
    SparkOption("value.message", "the first", "source and sink", "The message of a Protobuf schema that has several."),
    SparkOption(
        "value.mode",
        "failfast",
        "source",
        "failfast or permissive: whether a value that cannot be read fails the query, or is null with the reason in a "
        "column value_error.",
    ),
    SparkOption(
        "timestamp.mode",
        "failfast",
        "source",
        "failfast or permissive: whether a record's time that a timestamp cannot hold, as of a producer that writes "
        "nanoseconds, fails the query or is null.",
    ),
    SparkOption("topic", "", "sink", "Write every row to this topic; goes before the column topic."),
    SparkOption(
        "timestamps",
        "now",
        "sink",
        "now or column: whether a record's time is that of the write, or the row's column timestamp, where null stands "
        "for now.",
    ),
    SparkOption(
        "delivery",
        "at-least-once",
        "sink",
        "at-least-once or exactly-once: rows in transactions, one for each task, and none written twice where Spark "
        "repeats a task or a micro-batch.",
    ),
    SparkOption(
        "delivery.prefix", "ottla", "sink", "What transactional ids, and groups that hold markers, begin with."
    ),
    SparkOption(
        "delivery.marker.topic",
        "the topic",
        "sink",
        "The topic whose partition 0 stands in the markers; needed where rows name their topics.",
    ),
    SparkOption(
        "delivery.missing.marker",
        "fail",
        "sink",
        "fail or write: what to do with a micro-batch other than the first where the query's markers are gone.",
    ),
    SparkOption(
        "delivery.query",
        "",
        "batch sink",
        "With delivery.batch: the query whose micro-batch a batch write is, as `write_batch` gives it.",
    ),
    SparkOption("delivery.batch", "", "batch sink", "The number of that micro-batch."),
)

STRATEGIES = ("subscribe", "subscribePattern", "assign")
_SPARKS_OWN = frozenset(
    {"path", "paths", "checkpointlocation", "queryname", "userspecifiedschema"}
    | {"asyncprogresstrackingenabled", "asyncprogresstrackingcheckpointintervalms"}
)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The parsed options of one read."""

    selection: Selection
    kafka: KafkaSettings
    starting: Limit
    ending: Limit
    columns: tuple[str, ...]
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = 900_000
    fail_on_data_loss: bool = True
    poll_timeout_ms: int = 120_000
    offset_retries: int = 3
    offset_retry_interval_ms: int = 10
    group_id_prefix: str = "spark-kafka-source"
    publish_group: str | None = None
    publish_offsets: bool = True
    pushdown: bool = False
    null_times: bool = False
    """True if a record's time that a timestamp cannot hold is null; else it fails the query."""
    values: ValueOptions = BYTES
    value_type: DataType | None = None
    """The type of typed values, fixed when the query started."""

    def survey(self) -> Survey:
        """A survey of the selected partitions, over this process's connections."""
        retries = FetchRetries(self.offset_retries, self.offset_retry_interval_ms)
        read_committed = self.kafka.read_committed
        return Survey(cluster(self.kafka), self.selection, read_committed=read_committed, retries=retries)


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """The parsed options of one write."""

    kafka: KafkaSettings
    topic: str | None
    values: ValueOptions = BYTES
    written_by: WrittenBy | None = None
    """The schema of typed values, settled when the query started."""
    delivery: SparkDelivery | None = None
    """The way in which rows are written exactly once; None: at least once."""
    timed: bool = False
    """True if the column timestamp holds the records' times."""


def source_options(options: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """Understand a source's options or raise ValueError in the words of Spark's connector."""
    given = _Given(options)
    selection = _selection(given)
    if streaming:
        for name, noun in (("endingOffsets", "offset"), ("endingOffsetsByTimestamp", "timestamp")):
            if given.has(name):
                raise ValueError(f"ending {noun} not valid in streaming queries")
        if given.has("endingTimestamp"):
            raise ValueError("ending timestamp not valid in streaming queries")
    starting, ending = limits(given, streaming=streaming)
    if not streaming:
        for name in ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay"):
            if given.has(name):
                log.warning("%s option ignored in batch queries", name)
    least, most = given.positive("minOffsetsPerTrigger"), given.positive("maxOffsetsPerTrigger")
    if least is not None and most is not None and least > most:
        raise ValueError(f"The value of minOffsetPerTrigger({least}) is higher than the maxOffsetsPerTrigger({most}).")
    kafka = consumer_settings(given.kafka)
    if kafka.group_id and given.has("groupIdPrefix"):
        log.warning("Option groupIdPrefix will be ignored as option kafka.group.id has been set.")
    return SourceOptions(
        selection=selection,
        kafka=kafka,
        starting=starting,
        ending=ending,
        columns=source_columns(options),
        min_partitions=given.positive("minPartitions"),
        max_records_per_partition=given.positive("maxRecordsPerPartition"),
        max_offsets_per_trigger=most,
        min_offsets_per_trigger=least,
        max_trigger_delay_ms=duration_ms(given.text("maxTriggerDelay") or "15m"),
        fail_on_data_loss=given.flag("failOnDataLoss", default=True),
        poll_timeout_ms=given.number("kafkaConsumer.pollTimeoutMs", 120_000),
        offset_retries=given.count("fetchOffset.numRetries", 3),
        offset_retry_interval_ms=given.count("fetchOffset.retryIntervalMs", 10),
        group_id_prefix=given.text("groupIdPrefix") or "spark-kafka-source",
        publish_group=given.text("publishGroup") or kafka.group_id,
        publish_offsets=given.flag("publishOffsets", default=True),
        pushdown=given.flag("pushdown", default=False),
        null_times=given.chosen("timestamp.mode", MODES) == "permissive",
        values=value_options(given.text),
    )


@dataclass(frozen=True, slots=True)
class Source:
    """The options of a read before it is known whether it is a batch or a stream."""

    selection: Selection
    kafka: KafkaSettings
    values: ValueOptions


def check_source(options: Mapping[str, str]) -> Source:
    """Refuse options that are wrong for batches and streams alike."""
    given = _Given(options)
    return Source(_selection(given), consumer_settings(given.kafka), value_options(given.text))


def source_columns(options: Mapping[str, str]) -> tuple[str, ...]:
    """The columns of a read, which its schema needs."""
    given = _Given(options)
    every = (*COLUMNS, HEADERS) if given.flag("includeHeaders", default=False) else COLUMNS
    if value_options(given.text).error_column:
        every = (*every, VALUE_ERROR)
    wanted = [name.strip() for name in (given.text("columns") or "").split(",") if name.strip()]
    if unknown := [name for name in wanted if name not in every]:
        raise ValueError(f"Option 'columns' names {', '.join(unknown)}; there are: {', '.join(every)}")
    if VALUE_ERROR in wanted and VALUE not in wanted:
        raise ValueError(f"Option 'columns' names {VALUE_ERROR}, which needs the column {VALUE} beside it")
    return tuple(name for name in every if name in wanted) if wanted else every


def sink_options(options: Mapping[str, str]) -> SinkOptions:
    """Understand a sink's options or raise ValueError in the words of Spark's connector."""
    given = _Given(options)
    text = given.text("topic")
    topic = text.strip() if text is not None else None
    delivery = delivery_options(given.text, topic)
    timed = given.chosen("timestamps", ("now", "column")) == "column"
    return SinkOptions(producer_settings(given.kafka), topic, value_options(given.text), delivery=delivery, timed=timed)


class _Given:
    """The options as given, whatever the case of their names."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._values = {name.lower(): str(value) for name, value in options.items()}
        self.kafka = {
            name.removeprefix("kafka."): value for name, value in self._values.items() if name.startswith("kafka.")
        }
        declared = {option.name.lower(): option.name for option in OPTIONS}
        for name in sorted(self._values.keys() - declared.keys() - _SPARKS_OWN):
            if not name.startswith("kafka."):
                near = difflib.get_close_matches(name, declared, n=1)
                hint = f"; did you mean {declared[near[0]]}?" if near else ""
                raise ValueError(f"Option '{name}' is not known{hint}")

    def has(self, name: str) -> bool:
        return name.lower() in self._values

    def text(self, name: str) -> str | None:
        return self._values.get(name.lower())

    def flag(self, name: str, *, default: bool) -> bool:
        text = self.text(name)
        if text is None:
            return default
        if text.strip().lower() not in ("true", "false"):
            raise ValueError(f"Option '{name}' must be true or false, got '{text}'")
        return text.strip().lower() == "true"

    def chosen(self, name: str, choices: tuple[str, ...]) -> str:
        """One of the choices, the first by default."""
        text = (self.text(name) or choices[0]).strip().lower()
        if text not in choices:
            raise ValueError(f"Option '{name}' must be {' or '.join(choices)}, got '{text}'")
        return text

    def number(self, name: str, default: int) -> int:
        text = self.text(name)
        if text is None:
            return default
        try:
            return int(text)
        except ValueError:
            raise ValueError(f"Option '{name}' must be a whole number, got '{text}'") from None

    def count(self, name: str, default: int) -> int:
        number = self.number(name, default)
        if number < 0:
            raise ValueError(f"Option '{name}' must not be negative, got {number}")
        return number

    def positive(self, name: str) -> int | None:
        if not self.has(name):
            return None
        number = self.number(name, 0)
        if number <= 0:
            raise ValueError(f"{name} must be positive")
        return number


def _selection(given: _Given) -> Selection:
    chosen = [name for name in STRATEGIES if given.has(name)]
    if len(chosen) != 1:
        which = "One of the following options must be" if not chosen else "Only one of the following options can be"
        raise ValueError(f"{which} specified for Kafka source: {', '.join(STRATEGIES)}. See the docs for more details.")
    text = (given.text(chosen[0]) or "").strip()
    if chosen[0] == "subscribe":
        topics = tuple(sorted({name.strip() for name in text.split(",") if name.strip()}))
        if not topics:
            raise ValueError(f"No topics to subscribe to as specified value for option 'subscribe' is '{text}'")
        return Selection(topics=topics)
    if chosen[0] == "subscribePattern":
        if not text:
            raise ValueError(
                f"Pattern to subscribe is empty as specified value for option 'subscribePattern' is '{text}'"
            )
        try:
            re.compile(text)
        except re.error as fault:
            raise ValueError(f"Option 'subscribePattern' is not a regular expression: {fault}") from fault
        return Selection(pattern=text)
    return Selection(partitions=_assigned(text))


def _assigned(text: str) -> tuple[TopicPartition, ...]:
    nothing = f"No topicpartitions to assign as specified value for option 'assign' is '{text}'"
    if not text.startswith("{"):
        raise ValueError(nothing)
    expected = f'Expected e.g. {{"topicA":[0,1],"topicB":[0,1]}}, got {text}'
    try:
        topics = json.loads(text)
    except ValueError as fault:
        raise ValueError(expected) from fault
    if not all(isinstance(them, list) and all(type(number) is int for number in them) for them in topics.values()):
        raise ValueError(expected)
    chosen = {TopicPartition(topic, number) for topic, them in topics.items() for number in them}
    if not chosen:
        raise ValueError(nothing)
    return tuple(sorted(chosen))


def limits(given: _Given, *, streaming: bool) -> tuple[Limit, Limit]:
    """The two limits of a read; a stream's ending is always the latest."""
    strategy = (given.text("startingOffsetsByTimestampStrategy") or "error").lower()
    if strategy not in ("error", "latest"):
        raise ValueError(f"Option 'startingOffsetsByTimestampStrategy' must be error or latest, got '{strategy}'")
    default = Edge.LATEST if streaming else Edge.EARLIEST
    starting = _limit(given, "starting", default, latest_where_none=strategy == "latest")
    if streaming:
        return starting, Edge.LATEST
    ending = _limit(given, "ending", Edge.LATEST, latest_where_none=True)
    _check_batch_end(starting, Edge.LATEST, "starting offset", "startingOffsets")
    _check_batch_end(ending, Edge.EARLIEST, "ending offset", "ending offset")
    check_limits(starting, ending)
    return starting, ending


def _check_batch_end(limit: Limit, wrong: Edge, whole: str, noun: str) -> None:
    if limit == wrong:
        raise ValueError(f"{whole} can't be {wrong.name.lower()} for batch queries on Kafka")
    if isinstance(limit, SpecificOffsets):
        for partition, offset in sorted(limit.offsets.items()):
            if offset == wrong:
                raise ValueError(f"{noun} for {partition} can't be {wrong.name.lower()} for batch queries on Kafka")


def _limit(given: _Given, end: str, default: Edge, *, latest_where_none: bool) -> Limit:
    if (text := given.text(f"{end}Timestamp")) is not None:
        try:
            time_ms = int(text)
        except ValueError:
            raise ValueError(f"Expected a single long value, got {text}") from None
        _check_times(f"{end}Timestamp", [time_ms])
        return Timestamps(time_ms, latest_where_none)
    if (text := given.text(f"{end}OffsetsByTimestamp")) is not None:
        times = flat(_json(f"{end}OffsetsByTimestamp", text))
        _check_times(f"{end}OffsetsByTimestamp", times.values())
        return Timestamps(times, latest_where_none)
    text = given.text(f"{end}Offsets")
    if text is None:
        return default
    if text.strip().lower() in ("earliest", "latest"):
        return Edge[text.strip().upper()]
    offsets = flat(_json(f"{end}Offsets", text))
    for partition, offset in offsets.items():
        if offset < Edge.EARLIEST:
            raise ValueError(
                f"Option '{end}Offsets': {offset} for {partition} is not an offset; -2 is earliest, -1 latest"
            )
    return SpecificOffsets(offsets)


def _check_times(option: str, times_ms: Iterable[int]) -> None:
    """Refuse negative times, which are names of other offsets to the broker, and those of more than 64 bits."""
    for time_ms in times_ms:
        if not 0 <= time_ms < 1 << 63:
            fault = "negative" if time_ms < 0 else "too large"
            raise ValueError(f"Option '{option}': the time {time_ms} is {fault}; write milliseconds since 1970")


def _json(option: str, text: str) -> object:
    try:
        return json.loads(text)
    except ValueError as fault:
        raise ValueError(
            f'Option \'{option}\': expected e.g. {{"topicA":{{"0":23,"1":-1}},"topicB":{{"0":-2}}}}, got {text}'
        ) from fault


_UNITS_MS = {"us": 0.001, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def duration_ms(text: str) -> int:
    """Spark's time strings: 100, 100ms, 10s, 15m, 15min, 2h, 1d; a bare number is milliseconds."""
    match = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", text.lower())
    if match is None or (match[2] or "ms") not in _UNITS_MS:
        raise ValueError(f"not a length of time: '{text}'; write e.g. 50ms, 10s, 15m, 2h or 1d")
    return int(int(match[1]) * _UNITS_MS[match[2] or "ms"])
