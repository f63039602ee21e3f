"""The assignment that a group is to reach: the input of an assignor, and the assignors by name.

An assignor is a pure function from a `Spec` to the partitions of each member.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ottla.groups.consumer_values import Partitions


@dataclass(frozen=True, slots=True)
class Subscriber:
    """One member as an assignor sees it: the topics that it reads, and its target until now."""

    member_id: str
    instance_id: str | None
    topics: frozenset[bytes]
    target: Partitions


@dataclass(frozen=True, slots=True)
class Spec:
    """The task of an assignor: members and topics. `partitions` gives the number of each topic's partitions."""

    subscribers: tuple[Subscriber, ...]
    partitions: Mapping[bytes, int]

    @property
    def homogeneous(self) -> bool:
        """True if all members read the same topics."""
        return len({each.topics for each in self.subscribers}) <= 1


Assignment = dict[str, dict[bytes, frozenset[int]]]
"""The partitions of each member, by member id and topic; of a member without any, an empty dictionary."""
Assignor = Callable[[Spec], Assignment]


def in_order(subscribers: tuple[Subscriber, ...]) -> list[Subscriber]:
    """Static members before dynamic ones, by instance id and then member id, compared as Java compares strings."""
    return sorted(
        subscribers,
        key=lambda each: (each.instance_id is None, java_order(each.instance_id or ""), java_order(each.member_id)),
    )


def java_order(text: str) -> bytes:
    """A key that sorts as `String.compareTo` does: by UTF-16 units."""
    return text.encode("utf-16-be", "surrogatepass")


def signed_halves(topic_id: bytes) -> tuple[int, int]:
    """A key that sorts topic ids as Java's `Uuid.compareTo` does: by their halves as signed numbers."""
    return (int.from_bytes(topic_id[:8], "big", signed=True), int.from_bytes(topic_id[8:], "big", signed=True))
