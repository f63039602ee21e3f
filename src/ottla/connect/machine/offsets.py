"""Check the offsets that somebody wants to set, and show those that are kept. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ottla.connect.machine.records import Target
from ottla.connect.machine.refusals import CallRefused
from ottla.connect.machine.state import Config, ConnectorState
from ottla.kernel.ids import TopicPartition

Change = tuple[Mapping[str, Any], Mapping[str, Any] | None]
"""A partition, and the offset that it gets; None removes it."""
ALTERED: Final = "The offsets for this connector have been altered successfully"
RESET: Final = "The offsets for this connector have been reset successfully"


def group_of(name: str) -> str:
    """The group that stands for a connector: ACLs on it are about the connector."""
    return f"connect-{name}"


def reading_group(config: Config, name: str) -> str:
    """The group as which a sink reads, and which has its offsets."""
    return config.get("consumer.override.group.id", group_of(name))


def require_stopped(connector: ConnectorState) -> None:
    """CallRefused unless the connector is stopped, and its tasks are gone."""
    if connector.target is not Target.STOPPED or connector.tasks:
        raise CallRefused(
            400,
            "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for the "
            f"specified connector by issuing a 'PUT' request to the '/connectors/{connector.name}/stop' endpoint",
        )


def sink_changes(changes: Sequence[Change]) -> dict[TopicPartition, int | None]:
    """Offsets of a sink as those of a consumer group. Digits as text pass, as in Kafka."""
    found: dict[TopicPartition, int | None] = {}
    for partition, offset in changes:
        if "kafka_topic" not in partition or "kafka_partition" not in partition:
            raise CallRefused(
                400,
                "The partition for a sink connector offset must contain the keys 'kafka_topic' and 'kafka_partition'",
            )
        number = _number(partition["kafka_partition"], "Kafka partition", "Partition")
        place = TopicPartition(str(partition["kafka_topic"]), number)
        if offset is None:
            found[place] = None
            continue
        if offset.get("kafka_offset") is None:
            raise CallRefused(
                400, "The offset for a sink connector should either be null or contain the key 'kafka_offset'"
            )
        found[place] = _number(offset["kafka_offset"], "Kafka offset", "Offset")
    return found


def _number(value: Any, what: str, noun: str) -> int:
    if not isinstance(value, bool):
        try:
            number = int(str(value))
        except ValueError:
            number = -1
        if number >= 0:
            return number
    raise CallRefused(
        400,
        f"Failed to parse the following {what} value in the provided offsets: '{value}'. {noun} values for sink "
        "connectors need to be integers.",
    )


def sink_offset(place: TopicPartition, offset: int) -> dict[str, Any]:
    """One committed offset as REST shows it."""
    return {
        "partition": {"kafka_topic": place.topic, "kafka_partition": place.partition},
        "offset": {"kafka_offset": offset},
    }
