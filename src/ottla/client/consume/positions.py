"""The positions at which reading begins: committed offsets, else those that `auto_offset_reset` chooses."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.client.consume import offsets
from ottla.client.consume.fetching import Reading
from ottla.client.consume.settings import NO_RESET, ConsumerSettings
from ottla.client.core.plan import ClusterPlan
from ottla.client.errors import refused
from ottla.client.model import EARLIEST, LATEST
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicPartition

_RESETS = {"earliest": EARLIEST, "latest": LATEST}


async def find_positions(
    plan: ClusterPlan, settings: ConsumerSettings, readings: Mapping[TopicPartition, Reading], *, of_group: bool
) -> None:
    """Give a position to those readings that have none.

    With `of_group` a partition whose topic is gone stays without one: the group takes it back soon. Else its error is
    raised, like all others, once the other partitions have their positions.
    """
    lost = {partition: reading for partition, reading in readings.items() if reading.position is None}
    fresh = [partition for partition, reading in lost.items() if reading.fetch_offset < 0]
    if fresh and settings.group_id is not None:
        committed = await offsets.committed_offsets(plan, settings.group_id, fresh, require_stable=True)
        for partition, found in committed.items():
            lost.pop(partition).seek(found.offset, found.leader_epoch)
    if not lost:
        return
    if settings.auto_offset_reset == NO_RESET:
        raise refused(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            ", ".join(map(str, lost)),
            f"no usable offset, and auto_offset_reset is {NO_RESET!r}: seek, or choose earliest or latest",
        )
    spec = _RESETS[settings.auto_offset_reset]
    faults: list[Exception] = []
    chosen = await offsets.list_offsets_each(plan, dict.fromkeys(lost, spec), settings.fetch.isolation_level)
    for partition, at in chosen.items():
        if not isinstance(at, Exception):
            lost[partition].seek(at.offset)
        elif of_group and isinstance(at, ApiError) and at.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            plan.metadata.doubt(partition.topic)
        else:
            faults.append(at)
    if faults:
        raise faults[0]
