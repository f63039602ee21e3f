"""The positions at which reading begins: committed offsets, else those that `auto_offset_reset` chooses."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.client.consume import offsets
from ottla.client.consume.received import PartitionReading
from ottla.client.consume.settings import NO_RESET, ConsumerSettings
from ottla.client.core.plan import ClusterPlan
from ottla.client.errors import refused
from ottla.client.model import EARLIEST, LATEST
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicPartition

Readings = Mapping[TopicPartition, PartitionReading]
_RESETS = {"earliest": EARLIEST, "latest": LATEST}


async def find_committed(
    plan: ClusterPlan, settings: ConsumerSettings, readings: Readings, *, timeout_ms: float | None = None
) -> None:
    """Give these readings the committed offsets of the group, if they are still without a position."""
    if settings.group_id is not None:
        found = await offsets.committed_offsets(
            plan, settings.group_id, list(readings), require_stable=True, timeout_ms=timeout_ms
        )
        for partition, committed in found.items():
            if readings[partition].position is None:
                readings[partition].seek(committed.offset, committed.leader_epoch)
    for reading in readings.values():
        reading.asked = True


async def choose_offsets(
    plan: ClusterPlan,
    settings: ConsumerSettings,
    readings: Readings,
    *,
    of_group: bool,
    timeout_ms: float | None = None,
) -> None:
    """Give these readings the offsets of `auto_offset_reset`, if they are still without a position.

    With `of_group` a partition whose topic is gone stays without one: the group takes it back soon. Else its error is
    raised, like all others, once the other partitions have their positions.
    """
    lost = {partition: reading for partition, reading in readings.items() if reading.position is None}
    if not lost:
        return
    if settings.auto_offset_reset == NO_RESET:
        raise refused(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            ", ".join(map(str, lost)),
            f"no usable offset, and auto_offset_reset is {NO_RESET!r}: seek, or choose earliest or latest",
        )
    specs = dict.fromkeys(lost, _RESETS[settings.auto_offset_reset])
    faults: list[Exception] = []
    chosen = await offsets.list_offsets_each(plan, specs, settings.fetch.isolation_level, timeout_ms)
    for partition, at in chosen.items():
        if isinstance(at, Exception):
            gone = isinstance(at, ApiError) and at.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if of_group and gone:
                plan.metadata.doubt(partition.topic)
            else:
                faults.append(at)
        elif lost[partition].position is None:
            lost[partition].seek(at.offset)
    if faults:
        raise faults[0]
