"""The replica that a consumer should read: one in its own rack, as Kafka's RackAwareReplicaSelector chooses (KIP-392).

Called by broker/handlers/fetch.py, which knows the racks of live brokers; leader.py knows what each replica holds.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.kernel.ids import BrokerId
from ottla.replication.leader import LeaderReplica


def nearest(leader: LeaderReplica, racks: Mapping[BrokerId, str | None], rack: str, offset: int) -> BrokerId | None:
    """The follower in `rack` that holds most; None if the leader is there itself, or no replica there holds `offset`.

    Apache Kafka would also send a consumer to a replica that has left the in-sync set but holds the offset; here the
    replica must be in sync, so that no consumer waits at one that receives little.
    """
    if racks.get(leader.me) == rack:
        return None
    near = []
    for broker in leader.replicas:
        held = leader.held[broker]
        holds = held.shown and held.log_start <= offset <= held.through
        if holds and broker in leader.committed_in_sync and racks.get(broker) == rack:
            near.append((held.through, held.caught_up_ms, broker))
    return max(near)[2] if near else None
