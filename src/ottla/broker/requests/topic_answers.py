"""Merges the two parts of an answer about offsets: what the handler refused, and what the group's coordinator said."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar


class _TopicAnswer(Protocol):
    name: str
    partitions: list[Any]


T = TypeVar("T", bound=_TopicAnswer)


def answered(refused: list[T], served: list[T]) -> list[T]:
    """One answer per topic, the refused partitions first, as Kafka gives them; `served` as it is if none is refused."""
    if not refused:
        return served
    return merged([*refused, *served])


def merged(topics: list[T]) -> list[T]:
    """One answer per topic, in the order of their first partitions; topics without a name are kept apart."""
    kept: list[T] = []
    by_name: dict[str, T] = {}
    for topic in topics:
        first = by_name.get(topic.name)
        if first is not None:
            first.partitions += topic.partitions
            continue
        kept.append(topic)
        if topic.name:
            by_name[topic.name] = topic
    return kept
