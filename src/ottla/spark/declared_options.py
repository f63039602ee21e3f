"""The options of `format("ottla")`, each declared once, and the text given for them under names of any case."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass


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


class GivenOptions:
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
