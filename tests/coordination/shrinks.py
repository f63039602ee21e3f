"""Ten leaders whose followers all lag: they decide, gather and encode entries as brokers do."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from clusters import Decisions, a_cluster, topic_id

from ottla.cluster.command_order import may_share_append
from ottla.cluster.commands import ChangeInSync, CreateTopic, ReplicaEpoch
from ottla.cluster.decide import decide
from ottla.kernel.ids import BrokerId
from ottla.kernel.seams import LogEntry
from ottla.metadata.entries import PartitionsChanged, decode_entry, encode_entry
from ottla.metadata.state import Metadata

LEADERS = range(1, 11)
EACH = 500
GATHERED = 200
"""The number of commands that a broker puts into one append."""


class Shrinks:
    """The state by the log, and by leader the commands that wait to be appended."""

    def __init__(self) -> None:
        cluster = a_cluster(*LEADERS)
        replicas = tuple((BrokerId(one), BrokerId(one % 10 + 1)) for one in LEADERS for _ in range(EACH))
        cluster.do(CreateTopic("lagging", topic_id("lagging"), assignment=replicas))
        self._cluster: Decisions = cluster
        self.state: Metadata = cluster.state
        self.waiting = {leader: self._commands(leader) for leader in LEADERS}
        self._sequence = 0
        self.marks: list[tuple[int, int]] = []
        """(writer's epoch, its sequence number) of each applied entry."""

    def _commands(self, leader: int) -> list[ChangeInSync]:
        topic = self.state.topics[topic_id("lagging")]
        alone = (ReplicaEpoch(BrokerId(leader), self._cluster.epoch(leader)),)
        return [
            ChangeInSync(topic.topic_id, index, partition.leader_epoch, partition.partition_epoch, alone)
            for index, partition in enumerate(topic.partitions)
            if partition.leader == leader
        ]

    def what_made_the_cluster(self) -> list[bytes]:
        return [encode_entry(body, broker_epoch=0, sequence=at) for at, body in enumerate(self._cluster.entries)]

    def gathered(self, leader: int) -> list[bytes]:
        """The entries of a leader's next append, decided on the present state."""
        some = self.waiting[leader][:GATHERED]
        assert all(may_share_append(one, other) for one, other in pairwise(some))
        writer, data = self._cluster.writer(leader), []
        for command in some:
            bodies = decide(command, self.state, writer)
            assert isinstance(bodies, list), bodies
            self._sequence += 1
            (body,) = bodies
            data.append(encode_entry(body, broker_epoch=writer.epoch, sequence=self._sequence))
        return data

    def written(self, leader: int) -> None:
        del self.waiting[leader][:GATHERED]

    def apply(self, entries: Sequence[LogEntry]) -> None:
        """Apply entries that were read from the log after the state's version."""
        for entry in entries:
            assert entry.version == self.state.version + 1
            decoded = decode_entry(entry.body)
            assert isinstance(decoded.body, PartitionsChanged)
            self.marks.append((decoded.broker_epoch, decoded.sequence))
            self.state.apply(entry.version, decoded.body)
