"""Administration of groups as stories: list, describe, delete, and offsets of groups that the caller is not in."""

from __future__ import annotations

from collections.abc import Collection

from ottla.client.consume.offsets import by_topic
from ottla.client.core.effects import Ask, AskAll
from ottla.client.core.plan import ClusterPlan
from ottla.client.errors import refused
from ottla.client.model import Destination
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from ottla.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from ottla.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from ottla.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from ottla.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from ottla.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)


async def list_groups(
    plan: ClusterPlan, *, states: Collection[str] = (), types: Collection[str] = ()
) -> list[ListedGroup]:
    """All groups of the cluster in these states and of these types, Kafka's names in any case; none: all."""
    least = 5 if types else 4 if states else 0

    def build(version: int) -> ListGroupsRequest:
        return ListGroupsRequest(
            states_filter=list(states) if version >= 4 else [], types_filter=list(types) if version >= 5 else []
        )

    attempts = plan.attempts()
    while True:
        await plan.refresh()
        brokers = list(plan.metadata.brokers.values())
        answers = await AskAll(
            [
                Ask(broker.destination(), ListGroupsRequest, ListGroupsResponse, build, min_version=least)
                for broker in brokers
            ]
        )
        fault: Exception | None = None
        found: dict[str, ListedGroup] = {}
        for broker, answer in zip(brokers, answers, strict=True):
            if isinstance(answer, Exception):
                fault = answer
            elif answer.error_code and answer.error_code != ErrorCode.COORDINATOR_NOT_AVAILABLE:
                fault = refused(answer.error_code, f"groups of broker {broker.id}")
            else:
                found.update((group.group_id, group) for group in answer.groups)
        if fault is None:
            return list(found.values())
        await attempts.after(fault)


async def describe_groups(plan: ClusterPlan, groups: Collection[str]) -> dict[str, DescribedGroup | ApiError]:
    """State and members of each classic group.

    A group that does not exist has GROUP_ID_NOT_FOUND, or from brokers before Kafka 4.0 the state Dead.
    """
    found: dict[str, DescribedGroup | ApiError] = {}
    for group in groups:
        request = DescribeGroupsRequest(groups=[group])

        def ask(where: Destination, request: DescribeGroupsRequest = request) -> Ask[DescribeGroupsResponse]:
            return Ask(where, DescribeGroupsRequest, DescribeGroupsResponse, lambda _: request)

        try:
            response = await plan.ask_coordinator(group, ask, lambda answer: answer.groups[0].error_code)
        except ApiError as fault:
            found[group] = fault
            continue
        described = response.groups[0]
        refusal = refused(described.error_code, f"group {group!r}", described.error_message)
        found[group] = refusal if described.error_code else described
    return found


async def describe_consumer_groups(
    plan: ClusterPlan, groups: Collection[str]
) -> dict[str, DescribedConsumerGroup | ApiError]:
    """State, epochs and members of groups of the consumer protocol (KIP-848).

    GROUP_ID_NOT_FOUND for those of another kind.
    """
    found: dict[str, DescribedConsumerGroup | ApiError] = {}
    for group in groups:
        request = ConsumerGroupDescribeRequest(group_ids=[group])

        def ask(
            where: Destination, request: ConsumerGroupDescribeRequest = request
        ) -> Ask[ConsumerGroupDescribeResponse]:
            return Ask(where, ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, lambda _: request)

        try:
            response = await plan.ask_coordinator(group, ask, lambda answer: answer.groups[0].error_code)
        except ApiError as fault:
            found[group] = fault
            continue
        described = response.groups[0]
        refusal = refused(described.error_code, f"group {group!r}", described.error_message)
        found[group] = refusal if described.error_code else described
    return found


async def delete_groups(plan: ClusterPlan, groups: Collection[str]) -> dict[str, ApiError | None]:
    """Delete groups with their offsets; None: deleted. Errors are NON_EMPTY_GROUP and GROUP_ID_NOT_FOUND."""
    outcome: dict[str, ApiError | None] = {}
    for group in groups:
        request = DeleteGroupsRequest(groups_names=[group])

        def ask(where: Destination, request: DeleteGroupsRequest = request) -> Ask[DeleteGroupsResponse]:
            return Ask(where, DeleteGroupsRequest, DeleteGroupsResponse, lambda _: request)

        try:
            response = await plan.ask_coordinator(group, ask, lambda answer: answer.results[0].error_code)
        except ApiError as fault:
            outcome[group] = fault
            continue
        code = response.results[0].error_code
        outcome[group] = refused(code, f"group {group!r}") if code else None
    return outcome


async def delete_offsets(
    plan: ClusterPlan, group: str, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, ApiError | None]:
    """Delete a group's committed offsets; GROUP_SUBSCRIBED_TO_TOPIC for topics that its members read.

    Raises `ApiError` GROUP_ID_NOT_FOUND where there is no such group.
    """
    request = OffsetDeleteRequest(
        group_id=group,
        topics=[
            OffsetDeleteRequestTopic(
                name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in indexes]
            )
            for topic, indexes in by_topic(partitions).items()
        ],
    )
    response = await plan.ask_coordinator(
        group,
        lambda where: Ask(where, OffsetDeleteRequest, OffsetDeleteResponse, lambda _: request),
        lambda answer: answer.error_code,
    )
    if response.error_code:
        raise refused(response.error_code, f"deleting offsets of group {group!r}")
    return {
        TopicPartition(topic.name, part.partition_index): refused(
            part.error_code, f"offset of {topic.name}-{part.partition_index} in group {group!r}"
        )
        if part.error_code
        else None
        for topic in response.topics
        for part in topic.partitions
    }


async def remove_members(plan: ClusterPlan, group: str, members: Collection[MemberIdentity]) -> list[MemberResponse]:
    """Remove members from a group: by member id, or by instance id with an empty member id."""
    request = LeaveGroupRequest(group_id=group, members=list(members))
    response = await plan.ask_coordinator(
        group,
        lambda where: Ask(where, LeaveGroupRequest, LeaveGroupResponse, lambda _: request, min_version=3),
        lambda answer: answer.error_code,
    )
    if response.error_code:
        raise refused(response.error_code, f"removing members of group {group!r}")
    return response.members
