"""Faults of this broker's replicas as text: for metrics, and for `ottla doctor` by DescribeConfigs.

Apache Kafka's own answers have no field for a reason: DescribeLogDirs leaves out a replica that cannot be opened.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ottla.storage.directory.strays import folder_in_words, stray_folders

if TYPE_CHECKING:
    from ottla.broker.replicas.reconcile import Replicas
    from ottla.metadata.state import Metadata
    from ottla.storage.log import Log

_MOST = 100


class Trouble(NamedTuple):
    """One replica that is not fully served, or a folder that was set aside."""

    topic: str
    partition: int
    path: str
    reason: str
    set_aside: bool = False


def as_json(replicas: Replicas, metadata: Metadata) -> str:
    """Replicas first, then folders that were set aside, as many as fit into an answer."""
    found = [*replicas_in_trouble(replicas, metadata), *_set_aside(replicas)]
    return json.dumps([one._asdict() for one in found[:_MOST]], separators=(",", ":"))


def _set_aside(replicas: Replicas) -> Iterator[Trouble]:
    for directory in replicas.directories.online:
        for folder in stray_folders(directory.disk, directory.path):
            place, reason = folder_in_words(directory.disk, folder)
            yield Trouble(place.topic, place.partition, folder, reason, set_aside=True)


def replicas_in_trouble(replicas: Replicas, metadata: Metadata) -> Iterator[Trouble]:
    """Replicas that cannot be opened, and those that are served except for damaged parts."""
    for key, found in sorted(replicas.directories.unreadable.by_key.items()):
        if metadata.partition(*key) is not None:
            for one in found:
                yield Trouble(one.topic, one.found.partition, one.found.path, one.reason)
    for partition in replicas.all():
        if reason := _damage_in_words(partition.log):
            yield Trouble(partition.topic, partition.index, partition.log.directory, reason)


def _damage_in_words(held: Log) -> str:
    if held.damaged_at is not None:
        return f"damaged from offset {held.damaged_at} on: nothing behind it is served"
    extents = [extent for base in held.damage.bases for extent in held.damage.of(base)]
    parts = [f"{one.first_offset} to {one.next_offset - 1}" for one in extents[:3]]
    more = f" and {len(extents) - 3} more places" if len(extents) > 3 else ""
    return f"damaged: offsets {', '.join(parts)}{more} are refused" if parts else ""
