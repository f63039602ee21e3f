"""The replicas on this broker: makes the logs here match those that the metadata places here (rule C2).

Called by node.py whenever the metadata has changed; each replica is a broker/replicas/partition.py over a log in one of
the log directories (log_directories.py). pending_replicas.py makes and removes them a few at a time, removal.py deletes
dropped logs, directory_failures.py takes failed directories offline, and log_upkeep.py does recurring work.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ottla.broker.replicas.directory_failures import DirectoryFailures
from ottla.broker.replicas.fetcher import ReplicaFetches
from ottla.broker.replicas.in_sync_sets import InSyncSets
from ottla.broker.replicas.in_sync_sets import PartitionCoordinators as InSync
from ottla.broker.replicas.log_directories import LogDirectories
from ottla.broker.replicas.log_upkeep import LogUpkeep
from ottla.broker.replicas.moves import ReplicaMoves
from ottla.broker.replicas.offline_replicas import OfflineReplicas
from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.pending_replicas import PendingReplicas
from ottla.broker.replicas.removal import Removal
from ottla.broker.replicas.reopening import Reopening
from ottla.broker.replicas.short_leaders import ShortLeaders
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import NO_LEADER, BrokerEpoch, BrokerId, TopicId, TopicPartition
from ottla.kernel.seams import Disk
from ottla.metadata.partition_state import PartitionState
from ottla.metadata.state import Topic
from ottla.metrics.metric import Traffic
from ottla.storage.directory.directory import HeldLock

if TYPE_CHECKING:
    from ottla.broker.control.peers import Peers
    from ottla.broker.environment import Environment
    from ottla.broker.replicas.throttle import Throttle
    from ottla.config.topic import TopicConfig
    from ottla.storage.log import Log

log = logging.getLogger("ottla.replicas")
_FEW = 2


class LeaderCoordinators(InSync, Protocol):
    """The coordinators of this broker: coordinators/leading.py."""

    def started_leading(self, partition: Partition, before: BrokerId) -> None:
        """This broker leads the partition; `before` led it until now, as far as known here."""

    def stopped_leading(self, partition: Partition) -> None: ...


@dataclass(frozen=True, slots=True)
class Care:
    """The parts that look after the logs here: compactor.py, scrubber.py and repairs.py."""

    is_compacting: Callable[[Partition], bool]
    suspect: Callable[[Partition, int], None]
    """Called if a log may be damaged at an offset."""
    repair: Callable[[Partition], None]
    """Called after damage was found, and after a change of leader, in-sync set or live brokers."""


class Replicas:
    """All partitions here, by topic name and by topic id."""

    def __init__(
        self,
        around: Environment,
        disk: Disk,
        paths: Sequence[str],
        *,
        needed: str | None,
        peers: Peers,
        throttle: Throttle,
        coordinating: LeaderCoordinators,
        care: Care,
    ) -> None:
        """`needed`: the log directory that the broker needs to go on. `throttle` limits replicas that catch up."""
        self._around = around
        self._coordinating = coordinating
        self._care = care
        self._disk = disk
        self.directories = LogDirectories(around, disk, paths, needed=needed)
        self.offline = OfflineReplicas(around, self.directories)
        self.reopening = Reopening(around, self.directories, self._take_in)
        self.removal = Removal(around, self.directories)
        self.moves = ReplicaMoves(around, self.directories, self, self.removal, care.is_compacting)
        self._pending = PendingReplicas(
            around, disk, self.directories, self.removal, settle=self._settle, together=self.together
        )
        self.by_name: dict[tuple[str, int], Partition] = {}
        self.by_id: dict[tuple[bytes, int], Partition] = {}
        self.directory_failures = DirectoryFailures(
            around,
            self.directories,
            self.offline,
            self.moves,
            self.by_id,
            take_away=self._take_away,
            on_offline=self._pending.try_all_again,
        )
        self.upkeep = LogUpkeep(around, self.directories, self.by_id, self.removal.later)
        self.fetches = ReplicaFetches(around, self, peers, throttle, self.upkeep, ShortLeaders(around))
        self.spoke_ms: dict[BrokerId, int] = {}
        """The time of the last fetch of each follower's broker from here."""
        self.in_sync = InSyncSets(around, coordinating, self.all, self.spoke_ms)
        self.traffic: dict[str, Traffic] = {}
        """Traffic by topic, of all its partitions that are or were here."""

    def __len__(self) -> int:
        return len(self.by_id)

    def all(self) -> Iterator[Partition]:
        """All partitions, ordered by topic and index."""
        return iter([self.by_name[key] for key in sorted(self.by_name)])

    def open(self, cluster_id: str, new_id: Callable[[], str], lock: Callable[[str], HeldLock | None] | None) -> None:
        """Open and recover the logs, before the broker registers (rule A7)."""
        self.directories.open(cluster_id, new_id, lock)
        self.upkeep.note_starts_soon()
        self.removal.later()

    def led(self) -> list[Partition]:
        """The partitions that lead."""
        return [partition for partition in self.all() if partition.leader is not None]

    # --- reconciling ---

    def reconcile(self, topics: Iterable[Topic], gone: Collection[bytes]) -> None:
        """Make the replicas of these topics match the metadata; drop those of deleted topics.

        Leaderships are settled when this returns. Directories are made and removed a few at a time, with turns of the
        loop in between: until then requests for a new partition get NOT_LEADER_OR_FOLLOWER.
        """
        if gone:
            for dropped in [each for each in self.by_id.values() if each.topic_id in gone]:
                self._drop(dropped, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        self._drop_recovered()
        topics = list(topics)
        try:
            with self.together(self._new_roles(topics)):
                for topic in topics:
                    for state in topic.partitions:
                        self._reconcile_or_put_off(topic, state)
        except OSError as error:
            self._pending.trouble(error)
        self.offline.look()
        self.reopening.look()
        self._pending.begin()

    def _take_in(self, key: tuple[bytes, int], short: bool) -> None:
        """Serve a replica that could not be opened at the start and is open now; `short`: its log may lack its end."""
        self.upkeep.note_starts_soon()
        self._pending.add(key)
        self._pending.begin()
        self.offline.is_online(key, short=short)

    def _drop_recovered(self) -> None:
        """Drop logs that were placed here when they were opened, and no longer are after the registration."""
        for topic_id, index in list(self.directories.recovered):
            topic = self._around.metadata.topics.get(TopicId(topic_id))
            if topic is None or not self.directories.placed_here(topic, index):
                opened = self.directories.recovered.pop((topic_id, index))
                self._pending.put_away(TopicPartition(opened.topic, index))

    def _reconcile_or_put_off(self, topic: Topic, state: PartitionState) -> None:
        """Reconcile a replica; one without disk space to lead must not keep the others from resigning."""
        try:
            self._reconcile_partition(topic, state)
        except OSError as error:
            self._pending.put_off((topic.topic_id, state.partition), error)

    def _reconcile_partition(self, topic: Topic, state: PartitionState) -> None:
        key = (topic.topic_id, state.partition)
        partition = self.by_id.get(key)
        if self._around.broker not in state.replicas:
            if partition is not None:
                self._drop(partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        elif partition is not None:
            self.configure(partition, state, self._around.options.topic_config(topic))
            self._take_part(partition, state)
        elif key in self.directories.offline or self.directories.unreadable.holds_back(key, state):
            pass  # its records are elsewhere: an empty replica must not take its place
        elif key in self.directories.recovered:
            self._take_part(self._add(topic, state.partition, self.directories.recovered.pop(key)), state)
        else:
            self._pending.add(key)

    def _new_roles(self, topics: list[Topic]) -> int:
        """Give replicas here their roles; each syncs the start of its epoch, or the removal of our empty one."""
        here, new = self._around.broker, 0
        for topic in topics:
            for state in topic.partitions:
                partition = self.by_id.get((topic.topic_id, state.partition))
                if partition is None:
                    new += (topic.topic_id, state.partition) in self.directories.recovered
                elif state.leader == here or partition.leader is not None:
                    new += partition.leader is None or state.leader_epoch != partition.leader_epoch
        return new

    def _add(self, topic: Topic, index: int, opened: Log) -> Partition:
        config = self._around.options.topic_config(topic)
        traffic = self.traffic.setdefault(topic.name, Traffic())
        partition = Partition(
            topic.name, index, topic.topic_id, opened, config, traffic, self._around, self._care.suspect
        )
        opened.listen(on_synced=partition.on_synced, on_failed=self._around.disk_failed)
        self.by_id[(topic.topic_id, index)] = self.by_name[(topic.name, index)] = partition
        return partition

    def configure(self, partition: Partition, state: PartitionState, config: TopicConfig) -> None:
        """Apply options. A leader that the same entries depose resigns first: with a lower min.insync.replicas it would
        commit records that the next leader never had."""
        if partition.config is config or partition.config == config:
            return
        leads_on = state.leader == self._around.broker and state.leader_epoch == partition.leader_epoch
        if partition.leader is not None and not leads_on:
            partition.resign(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            self._coordinating.stopped_leading(partition)
        partition.set_config(config)

    def _take_part(self, partition: Partition, state: PartitionState) -> None:
        """Lead, or stop leading."""
        here = self._around.broker
        if state.leader != here:
            if partition.leader is not None:
                partition.resign(ErrorCode.NOT_LEADER_OR_FOLLOWER)
                self._coordinating.stopped_leading(partition)
            if state.leader == NO_LEADER:
                if partition.follower is not None:
                    self.fetches.leave(partition)
                    partition.resign(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            elif partition.follower is None or partition.leader_epoch != state.leader_epoch:
                committed = self.directories.of(partition.log).offsets.committed_before(partition.log)
                partition.follow(state.leader, state.leader_epoch, state.unclean_epoch, committed)
                self.fetches.follow(partition)
        elif partition.leader is None or partition.leader_epoch != state.leader_epoch:
            before = partition.leader_id
            self.fetches.leave(partition)
            partition.lead(
                state.leader_epoch,
                replicas=state.replicas,
                in_sync=frozenset(state.in_sync),
                partition_epoch=state.partition_epoch,
                registered=self._registered(),
                arriving=state.arriving,
            )
            self._coordinating.started_leading(partition, before)
            log.info("leads %s-%d from leader epoch %d on", partition.topic, partition.index, state.leader_epoch)
            partition.settled_in(state)
            self._see_to_damage(partition, state)
            return
        partition.registered_changed(self._registered())
        if partition.partition_epoch != state.partition_epoch:
            if partition.leader is not None:
                self.in_sync.count(partition.leader.committed_in_sync, state.in_sync)
            partition.in_sync_changed(state)
            if partition.follower is not None and here not in state.in_sync:
                self.fetches.say_again(partition)  # the leader has dropped the positions of replicas that left it
        partition.settled_in(state)
        if partition.leader is not None and len(state.replicas) > 1:
            self.in_sync.look(partition)
        self._see_to_damage(partition, state)

    def _registered(self) -> dict[BrokerId, BrokerEpoch]:
        """The incarnation of each broker that is registered now."""
        return {broker_id: broker.epoch for broker_id, broker in self._around.metadata.brokers.items()}

    def stopped(self, partition: Partition) -> None:
        """Act on what the metadata says of a log that was to be cut behind damage, and takes no more writes."""
        state = self._around.metadata.partition(partition.topic_id, partition.index)
        if state is not None and self.by_id.get((partition.topic_id, partition.index)) is partition:
            self._see_to_damage(partition, state)
        if self._pending.is_unsettled:
            self._pending.begin()

    def _see_to_damage(self, partition: Partition, state: PartitionState) -> None:
        """Repair closed segments; rebuild a log with other damage once it is in no in-sync or eligible set.

        A log whose end was found damaged at the start was removed from them by the registration (rule A7); a log that
        was to be cut behind damage asks for that itself.
        """
        held, here = partition.log, self._around.broker
        if held.damaged_at is None or not state.has_leader or here in (state.leader, *state.in_sync, *state.eligible):
            if held.damage or held.damaged_at is not None:
                self._care.repair(partition)
            return
        log.warning("%s-%d is damaged from offset %d on: it is fetched anew from its leader", partition.topic,
                    partition.index, held.damaged_at)  # fmt: skip
        self._drop(partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._pending.add((partition.topic_id, partition.index))

    def _drop(self, partition: Partition, error: ErrorCode) -> None:
        """Drop a replica that is deleted, placed elsewhere or begun anew; `error` answers waiting requests."""
        log.info("%s-%d is no longer here", partition.topic, partition.index)
        self._take_away(partition, error)
        self._pending.put_away(TopicPartition(partition.topic, partition.index))

    def _take_away(self, partition: Partition, error: ErrorCode) -> None:
        """Remove a partition, and answer its waiting requests with the error."""
        leading = partition.leader is not None
        self.moves.cancel((partition.topic_id, partition.index))
        self.fetches.leave(partition)
        del self.by_id[(partition.topic_id, partition.index)]
        if self.by_name.get((partition.topic, partition.index)) is partition:
            del self.by_name[(partition.topic, partition.index)]
        partition.resign(error)
        if leading:
            self._coordinating.stopped_leading(partition)

    def _settle(self, key: tuple[bytes, int]) -> None:
        """Make or drop a replica by the present metadata; may be repeated."""
        topic = self._around.metadata.topics.get(TopicId(key[0]))
        if topic is None:
            return  # deleted again before it was made
        index = key[1]
        directories = self.directories
        known = key in self.by_id or key in directories.recovered or key in directories.offline
        if not known and directories.placed_here(topic, index):
            self._add(topic, index, directories.create(topic, index))
            log.info("%s-%d is new here", topic.name, index)
        self._reconcile_partition(topic, topic.partitions[index])

    def together(self, count: int) -> AbstractContextManager[None]:
        """Gather syncs, to do those of many logs together: a new log needs ten, a new leader or follower two."""
        return self._disk.gathered(*self.directories.usable_paths) if count > _FEW else nullcontext()

    def start_on_disk(self, partition: Partition) -> int:
        """The log start offset that holds after a crash too."""
        return self.directories.of(partition.log).offsets.start_on_disk(partition.log)

    def close(self, *, clean: bool, broker_epoch: int) -> None:
        """End every wait; sync and close every log."""
        self.fetches.close()
        self.moves.stop()
        for partition in self.by_id.values():
            partition.resign(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.by_id.clear()
        self.by_name.clear()
        self.upkeep.close()
        self.removal.close()
        self.reopening.close()
        if self.directories.is_open:
            self.directories.close(clean=clean, broker_epoch=broker_epoch)
