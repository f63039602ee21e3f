"""The kinds of groups, and the facts that a group of any kind can give.

All kinds share one name space of group ids, one log and one set of committed offsets per group.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from enum import Enum
from typing import ClassVar

from ottla.messages.list_groups import ListedGroup, ListGroupsRequest


class GroupKind(Enum):
    """The protocol that the members of a group speak; values are the types in ListGroups."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


class AnyGroup(ABC):
    """A group of any kind."""

    kind: ClassVar[GroupKind]
    group_id: str

    @property
    @abstractmethod
    def state_name(self) -> str:
        """The state as ListGroups and the describe APIs show it."""

    @property
    @abstractmethod
    def shown_protocol_type(self) -> str:
        """The protocol type as ListGroups shows it."""

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of the group's members."""

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """True if the group has no members: it may be deleted, and its offsets may expire."""

    @abstractmethod
    def is_subscribed(self, topic: str) -> bool:
        """True if a member may read the topic: its offsets then neither expire nor may be deleted."""

    @abstractmethod
    def offsets_idle_since_ms(self, committed_ms: int) -> int:
        """The time from which the retention of an offset runs that was committed at `committed_ms`."""

    @abstractmethod
    def offsets_may_expire(self) -> bool:
        """True if offsets of topics without a subscriber may expire now."""


def listed(groups: Iterable[AnyGroup], request: ListGroupsRequest) -> list[ListedGroup]:
    """The groups that pass the filters of a request; names are compared in any case, an empty filter lets all pass."""
    states = {state.strip().lower() for state in request.states_filter}
    types = {each.lower() for each in request.types_filter}
    return [
        ListedGroup(
            group_id=group.group_id,
            protocol_type=group.shown_protocol_type,
            group_state=group.state_name,
            group_type=group.kind.value,
        )
        for group in groups
        if (not types or group.kind.value in types) and (not states or group.state_name.lower() in states)
    ]
