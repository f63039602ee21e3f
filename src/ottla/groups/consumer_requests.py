"""Heartbeats of consumer groups before any group is looked at: finds those that contradict themselves."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from ottla.groups.consumer_values import (
    JOINING,
    LEAVING,
    LEAVING_FOR_A_WHILE,
    ConsumerMember,
    Partitions,
    partitions_of,
)
from ottla.groups.entries import writable
from ottla.groups.values import Caller
from ottla.kernel.errors import ErrorCode, clipped
from ottla.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

_OWN_IDS_SINCE = 1
"""The version from which on clients make the ids of their members."""
_LONGEST_KEY = "is longer than a record of the offsets topic can hold."


def refusal(
    request: ConsumerGroupHeartbeatRequest, version: int, assignors: Collection[str]
) -> ConsumerGroupHeartbeatResponse | None:
    """The answer to a request that no group can take; None for one that is in order."""
    if wrong := _contradiction(request, version):
        return refused(ErrorCode.INVALID_REQUEST, wrong)
    if request.server_assignor is not None and request.server_assignor not in assignors:
        known = ", ".join(assignors)
        return refused(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"The assignor {clipped(request.server_assignor)} is not known; supported are {known}.",
        )
    return None


def _contradiction(request: ConsumerGroupHeartbeatRequest, version: int) -> str | None:
    if _is_blank(request.group_id):
        return "The group id must not be empty."
    if not writable(request.group_id) or not writable(request.member_id):
        return f"The id of the group or the member {_LONGEST_KEY}"
    if _is_blank(request.member_id) and (version >= _OWN_IDS_SINCE or request.member_epoch != JOINING):
        return "The member id must not be empty."
    if request.instance_id is not None and _is_blank(request.instance_id):
        return "The instance id must not be empty."
    if request.rack_id is not None and _is_blank(request.rack_id):
        return "The rack id must not be empty."
    if not writable(request.subscribed_topic_regex or ""):
        return f"The regular expression {_LONGEST_KEY}"
    if request.member_epoch == JOINING:
        return _wrong_join(request)
    if request.member_epoch < LEAVING_FOR_A_WHILE:
        return f"The member epoch {request.member_epoch} is not valid."
    if request.member_epoch == LEAVING_FOR_A_WHILE and request.instance_id is None:
        return "Only a static member can leave for a while: the instance id must be given."
    return None


def _is_blank(text: str) -> bool:
    """True if a text is empty for Java's `trim`: it has nothing but spaces and control characters."""
    return all(character <= " " for character in text)


def _wrong_join(request: ConsumerGroupHeartbeatRequest) -> str | None:
    if request.rebalance_timeout_ms == -1:
        return "A member that joins must give its rebalance timeout."
    if request.topic_partitions is None or request.topic_partitions:
        return "A member that joins must say that it owns no partitions."
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        return "A member that joins must give topic names or a regular expression."
    return None


def is_leave(request: ConsumerGroupHeartbeatRequest) -> bool:
    return request.member_epoch in (LEAVING, LEAVING_FOR_A_WHILE)


def is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """True if the request has all fields: the member joins, or wants its assignment again after an error."""
    return request.member_epoch == JOINING or (
        request.rebalance_timeout_ms != -1
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
        and request.topic_partitions is not None
    )


def owned_partitions(request: ConsumerGroupHeartbeatRequest) -> Partitions | None:
    """The partitions that the client owns by its own words; None if it named none."""
    if request.topic_partitions is None:
        return None
    return partitions_of((each.topic_id, each.partitions) for each in request.topic_partitions)


def updated(member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, caller: Caller) -> ConsumerMember:
    """The member with the values of the request; null and -1 leave the earlier value."""
    names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        client_id=caller.client_id,
        client_host=caller.client_host,
        topics=member.topics if names is None else frozenset(names),
        regex=member.regex if regex is None else regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        assignor=member.assignor if request.server_assignor is None else request.server_assignor,
        classic=None,
    )


def refused(error: ErrorCode, message: str) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=error, error_message=message)
