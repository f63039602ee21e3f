"""Ends of commands that read records: a group does not pass records that nobody saw."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ottla.kernel.ids import TopicPartition

if TYPE_CHECKING:
    from ottla.client.blocking.consumer import Consumer
    from ottla.client.model import ConsumedRecord


def take_each(consumer: Consumer, polled: Sequence[ConsumedRecord], take: Callable[[ConsumedRecord], None]) -> None:
    """Take the records one by one; where that ends early, go back to before those that were not taken.

    Closing a consumer commits where it stands.
    """
    taken = 0
    try:
        for record in polled:
            taken += 1
            take(record)
    finally:
        first: dict[TopicPartition, int] = {}
        for record in polled[taken:]:
            first.setdefault(TopicPartition(record.topic, record.partition), record.offset)
        for place, offset in first.items():
            consumer.seek(place, offset)
