"""The topics of a read, and the offsets or times at which it starts and ends, in the words of Spark's connector."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from ottla.kernel.ids import TopicPartition
from ottla.rows.plan import Edge, Limit, SpecificOffsets, Timestamps, check_limits, flat
from ottla.rows.selection import Selection
from ottla.spark.declared_options import STRATEGIES, GivenOptions


def selection_of(given: GivenOptions) -> Selection:
    """The partitions that a read is of, by the one strategy that is given."""
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


def limits(given: GivenOptions, *, streaming: bool) -> tuple[Limit, Limit]:
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


def _limit(given: GivenOptions, end: str, default: Edge, *, latest_where_none: bool) -> Limit:
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
