"""The moves of replicas between log directories, as far as `kafka-reassign-partitions` names directories."""

from __future__ import annotations

import sys
import time
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ottla.cli.faults import Misuse
from ottla.cli.kafka.java_errors import java
from ottla.cli.kafka.reassign_json import Replica
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicPartition

if TYPE_CHECKING:
    from ottla.client.blocking.admin import Admin

_AGAIN_S = 0.1


class ReplicaDirectories(NamedTuple):
    """The broker and directory of a replica, and those that it is being moved to."""

    current: str | None = None
    future: str | None = None


def directories_of(admin: Admin, replicas: Collection[Replica]) -> dict[Replica, str]:
    """The directory of each replica that is to be found."""
    return {replica: place.current for replica, place in _places(admin, replicas).items() if place.current is not None}


def _places(admin: Admin, replicas: Collection[Replica]) -> dict[Replica, ReplicaDirectories]:
    """The directories on live brokers; a replica that its broker does not have is in no directory."""
    brokers = admin.cluster.brokers()
    asked = [brokers[one] for one in sorted({replica.broker for replica in replicas}) if one in brokers]
    if not asked:
        return {}
    partitions = {TopicPartition(replica.topic, replica.partition) for replica in replicas}
    found: dict[Replica, ReplicaDirectories] = {}
    for broker, directories in admin.describe_log_dirs(asked, sorted(partitions)).items():
        if isinstance(directories, Exception):
            raise directories
        for directory in directories:
            for topic in directory.topics:
                for part in topic.partitions:
                    replica = Replica(broker, topic.name, part.partition_index)
                    place = found.get(replica, ReplicaDirectories())
                    path = directory.log_dir
                    found[replica] = (
                        place._replace(future=path) if part.is_future_key else ReplicaDirectories(path, place.future)
                    )
    alive = {broker.id for broker in asked}
    return {replica: found.get(replica, ReplicaDirectories()) for replica in replicas if replica.broker in alive}


def states_of_moves(admin: Admin, wanted: Mapping[Replica, str]) -> tuple[list[str], bool]:
    """The sentence for each move, and whether any is still under way."""
    places = _places(admin, wanted)
    lines, moving = [], False
    for replica in sorted(wanted):
        place, target = places.get(replica), wanted[replica]
        name = f"{replica.topic}-{replica.partition}"
        if place is None:
            lines.append(f"Partition {name} cannot be found in any live log directory on broker {replica.broker}.")
        elif place.current is None:
            lines.append(
                f"Partition {name} is not found in any live log dir on broker {replica.broker}. There is likely an "
                "offline log directory on the broker."
            )
        elif place.future is not None:
            moving = True
            lines.append(
                f"Reassignment of replica {replica} is still in progress."
                if place.future == target
                else f"Partition {name} on broker {replica.broker} is being moved to log dir {place.future} instead of "
                f"{target}."
            )
        elif place.current == target:
            lines.append(f"Reassignment of replica {replica} completed successfully.")
        else:
            lines.append(
                f"Partition {name} on broker {replica.broker} is not being moved from log dir {place.current} to "
                f"{target}."
            )
    return lines, moving


def active_moves(admin: Admin, wanted: Mapping[Replica, str]) -> dict[Replica, str]:
    """Replicas that are being moved, each with its present directory."""
    places = _places(admin, wanted)
    return {
        replica: place.current
        for replica, place in places.items()
        if place.future is not None and place.current is not None
    }


def begin_moves(admin: Admin, wanted: Mapping[Replica, str], timeout_ms: int) -> list[Replica]:
    """Have each replica moved, as soon as it is on its broker; return those for which the time was too short."""
    waiting = dict(wanted)
    deadline = time.monotonic() + timeout_ms / 1000
    while True:
        asked = {(one.broker, TopicPartition(one.topic, one.partition)): path for one, path in waiting.items()}
        begun = _begun(admin.alter_replica_log_dirs(asked))
        for replica in sorted(begun):
            sys.stdout.write(
                f"Successfully started moving log directory to {waiting.pop(replica)} for replica "
                f"{replica.topic}-{replica.partition} with broker {replica.broker} \n"
            )
        if not waiting or time.monotonic() >= deadline:
            return sorted(waiting)
        time.sleep(_AGAIN_S)


def _begun(outcome: Mapping[tuple[int, TopicPartition], Exception | None]) -> list[Replica]:
    begun: list[Replica] = []
    for (broker, partition), fault in outcome.items():
        replica = Replica(broker, *partition)
        if fault is None:
            begun.append(replica)
        elif not (isinstance(fault, ApiError) and fault.code is ErrorCode.REPLICA_NOT_AVAILABLE):
            raise Misuse(f"Failed to alter dir for {replica}: {java(fault)}")
    return begun
