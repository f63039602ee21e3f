"""Offsets: where partitions begin and end, what was when, and what a group has committed (without being a member)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TypeVar

from ottla.client.core.effects import Ask
from ottla.client.core.plan import UNKNOWN_TOPIC_PATIENCE_MS, ClusterPlan
from ottla.client.errors import may_retry, refused
from ottla.client.model import CommittedOffset, Destination, IsolationLevel, OffsetAtTime
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

T = TypeVar("T")

_LEAST_VERSION = {-3: 7, -4: 8, -5: 9}
"""ListOffsets versions from which special timestamps are understood."""
_NAMES_UNTIL = 9
"""OffsetCommit and OffsetFetch speak of topic ids only from version 10 on; names serve here."""


def by_topic(partitions: Collection[TopicPartition]) -> dict[str, list[int]]:
    """Partition numbers by topic, both sorted."""
    grouped: dict[str, list[int]] = {}
    for partition in sorted(partitions):
        grouped.setdefault(partition.topic, []).append(partition.partition)
    return grouped


async def list_offsets_each(
    plan: ClusterPlan,
    specs: Mapping[TopicPartition, int],
    isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    timeout_ms: float | None = None,
) -> dict[TopicPartition, OffsetAtTime | Exception]:
    """For each partition the offset at its spec, as for `Cluster.list_offsets`, or what went wrong.

    `timeout_ms` is for all attempts, by default `api_timeout_ms`.
    """
    least = max([1, *(_LEAST_VERSION.get(spec, 1) for spec in specs.values())])
    if isolation_level:
        least = max(least, 2)

    def ask(where: Destination, partitions: Sequence[TopicPartition]) -> Ask[ListOffsetsResponse]:
        def build(version: int) -> ListOffsetsRequest:
            topics = [
                ListOffsetsTopic(
                    name=topic,
                    partitions=[
                        ListOffsetsPartition(
                            partition_index=index,
                            current_leader_epoch=plan.metadata.leader_epoch(topic, index) if version >= 4 else -1,
                            timestamp=specs[TopicPartition(topic, index)],
                        )
                        for index in indexes
                    ],
                )
                for topic, indexes in by_topic(partitions).items()
            ]
            return ListOffsetsRequest(replica_id=-1, isolation_level=int(isolation_level), topics=topics)

        return Ask(where, ListOffsetsRequest, ListOffsetsResponse, build, min_version=least)

    return await plan.per_leader(list(specs), ask, _read_offsets, timeout_ms=timeout_ms)


async def list_offsets(
    plan: ClusterPlan,
    partitions: Collection[TopicPartition],
    spec: int | Mapping[TopicPartition, int],
    isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    timeout_ms: float | None = None,
) -> dict[TopicPartition, OffsetAtTime]:
    """Like `list_offsets_each`, but raise the first error."""
    specs = dict.fromkeys(partitions, spec) if isinstance(spec, int) else {each: spec[each] for each in partitions}
    found = await list_offsets_each(plan, specs, isolation_level, timeout_ms)
    return raise_first(found)


def raise_first(found: Mapping[TopicPartition, T | Exception]) -> dict[TopicPartition, T]:
    """The results where all are well; else the first error."""
    results: dict[TopicPartition, T] = {}
    for partition, result in found.items():
        if isinstance(result, Exception):
            raise result
        results[partition] = result
    return results


def _read_offsets(response: ListOffsetsResponse) -> dict[TopicPartition, OffsetAtTime | ApiError]:
    return {
        TopicPartition(topic.name, part.partition_index): refused(
            part.error_code, f"offsets of {topic.name}-{part.partition_index}"
        )
        if part.error_code
        else OffsetAtTime(part.offset, part.timestamp, part.leader_epoch)
        for topic in response.topics
        for part in topic.partitions
    }


async def commit_offsets(
    plan: ClusterPlan,
    group: str,
    offsets: Mapping[TopicPartition, CommittedOffset],
    *,
    generation: int = -1,
    member_id: str = "",
    instance_id: str | None = None,
    timeout_ms: float | None = None,
) -> dict[TopicPartition, ApiError | None]:
    """Commit; without generation and member id as an outsider, which the group allows while it is empty.

    A topic that the coordinator does not know is tried for a second: it may be new there, or was deleted.
    """

    def build(_version: int) -> OffsetCommitRequest:
        return OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[_committed(offsets, TopicPartition(topic, index)) for index in indexes],
                )
                for topic, indexes in by_topic(offsets).items()
            ],
        )

    least = 7 if instance_id is not None else 2
    limits = {"min_version": least, "max_version": _NAMES_UNTIL}
    attempts = plan.attempts(timeout_ms)
    patience = plan.attempts(min(attempts.left_ms, UNKNOWN_TOPIC_PATIENCE_MS))
    while True:
        response = await plan.ask_coordinator(
            group,
            lambda where: Ask(where, OffsetCommitRequest, OffsetCommitResponse, build, **limits),
            _first_commit_error,
            timeout_ms=timeout_ms,
        )
        outcome: dict[TopicPartition, ApiError | None] = {
            TopicPartition(topic.name, part.partition_index): refused(
                part.error_code, f"committing {topic.name}-{part.partition_index} of group {group!r}"
            )
            if part.error_code
            else None
            for topic in response.topics
            for part in topic.partitions
        }
        again = [fault.code for fault in outcome.values() if fault is not None and may_retry(fault)]
        unknown_only = all(code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for code in again)
        if not again or not await (patience if unknown_only else attempts).pause():
            return outcome


def _committed(
    offsets: Mapping[TopicPartition, CommittedOffset], partition: TopicPartition
) -> OffsetCommitRequestPartition:
    offset = offsets[partition]
    return OffsetCommitRequestPartition(
        partition_index=partition.partition,
        committed_offset=offset.offset,
        committed_leader_epoch=offset.leader_epoch,
        committed_metadata=offset.metadata,
    )


def _first_commit_error(response: OffsetCommitResponse) -> int:
    return next((part.error_code for topic in response.topics for part in topic.partitions if part.error_code), 0)


async def committed_offsets_each(
    plan: ClusterPlan,
    group: str,
    partitions: Collection[TopicPartition] | None = None,
    *,
    require_stable: bool = False,
    timeout_ms: float | None = None,
) -> dict[TopicPartition, CommittedOffset | ApiError]:
    """The group's committed offsets for these partitions, or for all it has commits for (None)."""
    wanted = None if partitions is None else by_topic(partitions)

    def build(version: int) -> OffsetFetchRequest:
        if version >= 8:
            topics = wanted and [
                OffsetFetchRequestTopics(name=name, partition_indexes=parts) for name, parts in wanted.items()
            ]
            of_group = OffsetFetchRequestGroup(group_id=group, topics=None if wanted is None else topics or [])
            return OffsetFetchRequest(groups=[of_group], require_stable=require_stable)
        old = wanted and [OffsetFetchRequestTopic(name=name, partition_indexes=parts) for name, parts in wanted.items()]
        return OffsetFetchRequest(
            group_id=group, topics=None if wanted is None else old or [], require_stable=require_stable
        )

    least = 7 if require_stable else 2 if wanted is None else 1
    limits = {"min_version": least, "max_version": _NAMES_UNTIL}
    attempts = plan.attempts(timeout_ms)
    while True:
        response = await plan.ask_coordinator(
            group,
            lambda where: Ask(where, OffsetFetchRequest, OffsetFetchResponse, build, **limits),
            lambda answer: answer.groups[0].error_code if answer.groups else answer.error_code,
            timeout_ms=timeout_ms,
        )
        code = response.groups[0].error_code if response.groups else response.error_code
        if code:
            await attempts.after(refused(code, f"offsets of group {group!r}"))
            continue
        outcome = _read_committed(response, group)
        again = any(isinstance(found, ApiError) and may_retry(found) for found in outcome.values())
        if not again or not await attempts.pause():
            return outcome


async def committed_offsets(
    plan: ClusterPlan,
    group: str,
    partitions: Collection[TopicPartition] | None = None,
    *,
    require_stable: bool = False,
    timeout_ms: float | None = None,
) -> dict[TopicPartition, CommittedOffset]:
    """Like `committed_offsets_each`, but leave out partitions without a commit and raise the first error."""
    found = await committed_offsets_each(plan, group, partitions, require_stable=require_stable, timeout_ms=timeout_ms)
    return {partition: offset for partition, offset in raise_first(found).items() if offset.offset >= 0}


def _read_committed(response: OffsetFetchResponse, group: str) -> dict[TopicPartition, CommittedOffset | ApiError]:
    topics = response.groups[0].topics if response.groups else response.topics
    return {
        TopicPartition(topic.name, part.partition_index): refused(
            part.error_code, f"offset of {topic.name}-{part.partition_index} in group {group!r}"
        )
        if part.error_code
        else CommittedOffset(part.committed_offset, part.metadata or "", part.committed_leader_epoch)
        for topic in topics
        for part in topic.partitions
    }
