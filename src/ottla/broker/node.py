"""The broker, wired together without a socket: metadata, replicas, sessions, groups, dispatch.

server/broker_server.py and sim/ build one over their own seams. Handlers find here what they need by question.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from traceback import format_exception
from typing import TYPE_CHECKING

from ottla.broker.control.departure import hand_over, say_farewell
from ottla.broker.control.doubts import Doubts
from ottla.broker.control.early_fence import EarlyFence
from ottla.broker.control.incarnations import refuse_older_store
from ottla.broker.control.membership import PeerProof
from ottla.broker.control.metadata_follow import MetadataFollow
from ottla.broker.control.peers import Peers
from ottla.broker.control.producer_ids import ProducerIds
from ottla.broker.coordinators.group_coordinator import OFFSETS_TOPIC, GroupCoordinator
from ottla.broker.coordinators.group_view import ClusterTopics, GroupOptions
from ottla.broker.coordinators.internal_topics import creation_of
from ottla.broker.coordinators.transaction_coordinator import TRANSACTION_TOPIC, TransactionCoordinator
from ottla.broker.coordinators.verification import Verification
from ottla.broker.handlers.metadata import Fragments
from ottla.broker.replicas.compactor import CompactionWork, Compactor, InTurns
from ottla.broker.replicas.doubtful_replicas import by_topic
from ottla.broker.replicas.full_disks import FullDisks
from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.reconcile import Replicas
from ottla.broker.replicas.repairs import Repairs
from ottla.broker.replicas.scrubber import Scrubber, ScrubInTurns, ScrubWork
from ottla.broker.replicas.throttle import throttles
from ottla.broker.requests.dispatch import Dispatch
from ottla.broker.requests.endpoints import Endpoints
from ottla.broker.requests.fetch_sessions import FetchSessions
from ottla.broker.requests.waiting import Deadlines
from ottla.broker.rounds import Rounds
from ottla.cluster import features
from ottla.cluster.brokers import TRANSACTIONS
from ottla.cluster.partitions import DECIDING
from ottla.cluster.upkeep import Upkeep
from ottla.config.resolve import Layers
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import NO_LEADER, BrokerEpoch, BrokerId, TopicId, new_id, topic_id_text
from ottla.kernel.seams import Clock, Coordination, Disk, Entropy, Network, Syncer
from ottla.kernel.story import Slot, run_story
from ottla.metadata.state import ALL_BROKERS, BROKER_RESOURCE, Changes, Listener, Metadata, Topic
from ottla.metrics.metric import Traffic
from ottla.storage.directory.directory import HeldLock

if TYPE_CHECKING:
    from ottla.broker.coordinators.coordinator import Coordinator
    from ottla.config.broker import BrokerConfig
    from ottla.config.topic import TopicConfig
    from ottla.groups.shard import GroupShard
    from ottla.transactions.shard import TransactionShard

log = logging.getLogger("ottla.node")
_SESSION_EVICTION_MS = 120_000
EVERYTHING = Changes(frozenset(), brokers=True, configs=frozenset(), everything=True)
Lock = Callable[[str], HeldLock | None]


class Node:
    """One broker. `start` is a story that ends once it can serve; `stop` closes the logs cleanly."""

    def __init__(
        self,
        *,
        layers: Layers,
        clock: Clock,
        entropy: Entropy,
        disk: Disk,
        syncer: Syncer,
        coordination: Coordination,
        data_directories: Sequence[str],
        on_fatal: Callable[[str], None],
        compaction: CompactionWork | None = None,
        scrub: ScrubWork | None = None,
        network: Network | None = None,
        needed_directory: str | None = None,
    ) -> None:
        """`needed_directory`: the log directory without which this broker cannot go on, as it holds the store."""
        self.layers = layers
        self.config = layers.broker()
        self.broker = BrokerId(self.config.node_id)
        self.clock = clock
        self.entropy = entropy
        self.syncer = syncer
        self.deadlines = Deadlines(clock)
        self.traffic: dict[str, Traffic] = {}
        self.fragments = Fragments()
        slots = self.config.max_incremental_fetch_session_cache_slots
        self.fetch_sessions = FetchSessions(clock, entropy, slots=slots, eviction_ms=_SESSION_EVICTION_MS)
        self.dispatch = Dispatch(self)
        session_ms = self.config.broker_session_timeout_ms
        self.follow = MetadataFollow(
            coordination, clock, self.deadlines, entropy, self.broker, session_timeout_ms=session_ms
        )
        self.replicas = Replicas(self, disk, data_directories, needed=needed_directory)
        self.follow.on_fatal = self._stop_for
        self.follow.lease.on_lapse = self._lapsed
        self.follow.upkeep = _upkeep(self.config)
        self.leader_throttle, self.follower_throttle = throttles(self.deadlines, self.config)
        self.full_disks = FullDisks(self.deadlines, lambda log: self.replicas.directories.of(log).path)
        self.doubts, self.peers, self.endpoints = Doubts(self), Peers(self, network), Endpoints(self)
        self.producer_ids = ProducerIds(self.follow)
        self.groups, self.transactions = self._new_coordinators()
        self.verification = Verification(self)
        self.compactor = Compactor(self, compaction or InTurns(disk, clock))
        self.scrubber = Scrubber(self, scrub or ScrubInTurns(disk, clock))
        self.repairs = Repairs(self)
        self._rounds = Rounds(self)
        self._coordination = coordination
        self._on_fatal = on_fatal
        self._failed: str | None = None
        self._topics_here: dict[bytes, str] = {}
        self._topic_configs: dict[TopicId, tuple[Layers, Mapping[str, str], TopicConfig]] = {}
        """Each with what it was made of."""

    def _new_coordinators(self) -> tuple[GroupCoordinator, TransactionCoordinator]:
        groups = GroupCoordinator(
            self,
            self.entropy,
            self.config,
            lambda: self._partitions_of(OFFSETS_TOPIC),
            topics=ClusterTopics(lambda: self.metadata),
            consumer_settings=GroupOptions(lambda: self.metadata, lambda: self.layers).consumer,
        )
        return groups, TransactionCoordinator(self, self.config, lambda: self._partitions_of(TRANSACTION_TOPIC))

    # --- life ---

    def start(self, host: str, listeners: tuple[Listener, ...], lock: Lock | None = None) -> Slot[None]:
        """Recover first, register second, serve third (rules A7, A8)."""
        return run_story(self._start(host, listeners, lock))

    async def _start(self, host: str, listeners: tuple[Listener, ...], lock: Lock | None) -> None:
        await self.follow.start()
        if self.metadata.cluster_id:
            await refuse_older_store(self)
            self.replicas.open(self.metadata.cluster_id, self._new_id, lock)
            await self._register(host, listeners)
        else:  # the first broker of a new cluster: there is nothing to recover
            self.replicas.directories.begin_anew(self._new_id)
            await self._register(host, listeners)
            self.replicas.open(self.metadata.cluster_id, self._new_id, lock)
        self.replicas.directories.incarnations.registered()  # before anything is led, or vouched for to a leader
        self._reconcile(EVERYTHING)
        self.replicas.moves.go_on()
        self.follow.on_reconcile = self._reconcile
        self._rounds.start()
        cluster_id, here = self.metadata.cluster_id, len(self.replicas)
        log.info("broker %d serves cluster %s with %d replicas here", self.broker, cluster_id, here)

    async def _register(self, host: str, listeners: tuple[Listener, ...]) -> None:
        directories = self.replicas.directories
        said = self.follow.registration(host=host, rack=self.config.broker_rack, listeners=listeners)
        await self.follow.register(
            said._replace(
                damaged=directories.doubtful.damaged(),
                short=directories.doubtful.short(),
                offline=by_topic(sorted(directories.offline)),
                directories=directories.ids(),
                held=directories.incarnations.held(),
                rolled_back=directories.doubtful.rolled_back(),
                accepted_store=directories.incarnations.accepted_store(),
                options=tuple((name, self.layers.static[name]) for name in DECIDING if name in self.layers.static),
            )
        )

    def _new_id(self) -> str:
        return topic_id_text(new_id(self.entropy))

    def hand_over(self) -> Slot[None]:
        """Before a stop, while clients are still served: what others can lead, they lead."""
        return run_story(hand_over(self))

    def stop(self, *, clean: bool) -> Slot[None]:
        return run_story(self._stop(clean=clean))

    async def _stop(self, *, clean: bool) -> None:
        self._rounds.stop()
        self.compactor.stop()
        self.scrubber.stop()
        self.repairs.stop()
        self.peers.close()
        for coordinator in self.coordinators.values():
            coordinator.close()
        epoch = self.metadata.brokers[self.broker].epoch if self.broker in self.metadata.brokers else -1
        self.follow.on_reconcile = _ignore
        self.replicas.close(clean=clean, broker_epoch=epoch)
        if clean and self._failed is None:
            await say_farewell(self)
        log.info("broker %d has stopped", self.broker)
        self.follow.close()
        self._coordination.close()

    def _stop_for(self, why: str) -> None:
        if self._failed is None:
            self._failed = why
            log.error("%s", why)
            self._on_fatal(why)

    def broken(self, error: Exception) -> None:
        """What holds always does not hold: nothing that this broker says can be trusted any more (rule F)."""
        self._stop_for(f"the broker found its own state untrue and stops: {''.join(format_exception(error))}")

    def disk_failed(self, error: OSError) -> None:
        """The log directory that the error names is offline, and with the last of them the process stops (rule B3).

        So it does where the metadata store lies in that one, and where the error does not say which it was.
        """
        if self._failed is not None:
            return
        directories = self.replicas.directories
        failed = directories.holding(error.filename)
        if failed is not None and failed.path in directories.failed:
            return
        if failed is not None and directories.may_go_on_without(failed):
            self.replicas.take_offline(failed, error)
            return
        directories.fail_all(error)
        path = directories.paths[0] if failed is None else failed.path
        self._stop_for(f"the log directory {path} failed: {error}")

    # --- what the metadata says ---

    @property
    def metadata(self) -> Metadata:
        return self.follow.metadata

    def _reconcile(self, changes: Changes) -> None:
        """Caught up with the metadata log: make what runs here what it says."""
        metadata = self.metadata
        self._take_configs(changes)
        if changes.everything or changes.features:
            self.transactions.take_features()
        if changes.everything or changes.brokers:
            self.doubts.reconcile()
            self.endpoints.recently_dead.reconcile(metadata)
            self.peers.reconcile()
            touched = list(metadata.topics.values())
        else:
            touched = [metadata.topics[topic_id] for topic_id in sorted(changes.topics) if topic_id in metadata.topics]
        gone = {topic_id: name for topic_id, name in self._topics_here.items() if topic_id not in metadata.topics}
        self.replicas.reconcile([topic for topic in touched if topic.ready], gone)
        for topic in touched:
            self._topics_here[topic.topic_id] = topic.name
        for topic_id in gone:
            name = self._topics_here.pop(topic_id)
            self._topic_configs.pop(TopicId(topic_id), None)
            if metadata.name_taken(name) is None:  # not made again meanwhile
                self.traffic.pop(name, None)
        if gone:
            self.groups.topics_deleted({name: topic_id for topic_id, name in gone.items()})

    def _take_configs(self, changes: Changes) -> None:
        """Options of brokers that were set while it runs; topics inherit from them."""
        if not changes.everything and not any(kind == BROKER_RESOURCE for kind, _ in changes.configs):
            return
        metadata = self.metadata
        self.layers = Layers(
            self.layers.static,
            metadata.config(BROKER_RESOURCE, ALL_BROKERS),
            metadata.config(BROKER_RESOURCE, str(self.broker)),
        )
        self.config = self.layers.broker()
        self.leader_throttle.rate = self.config.leader_replication_throttled_rate
        self.follower_throttle.rate = self.config.follower_replication_throttled_rate
        self.groups.reconfigure(self.config)
        self.transactions.reconfigure(self.config)
        for topic in metadata.topics.values():
            config = self.topic_config(topic)
            for partition in topic.partitions:
                replica = self.replicas.by_id.get((topic.topic_id, partition.partition))
                if replica is not None:
                    self.replicas.configure(replica, partition, config)

    def topic_config(self, topic: Topic) -> TopicConfig:
        """Made once for all partitions: it takes longer than what else a change of leaders costs each of them."""
        kept = self._topic_configs.get(topic.topic_id)
        if kept is None or kept[0] is not self.layers or kept[1] is not topic.configs:
            kept = self._topic_configs[topic.topic_id] = (self.layers, topic.configs, self.layers.topic(topic.configs))
        return kept[2]

    def registered_epochs(self) -> dict[BrokerId, BrokerEpoch]:
        return {broker_id: broker.epoch for broker_id, broker in self.metadata.brokers.items()}

    def started_leading(self, partition: Partition, before: BrokerId) -> None:
        """`before`: who led it until now, as far as was known here."""
        coordinator = self.coordinators.get(partition.topic)
        if coordinator is not None:
            deposed = self._deposed_unheard(partition, before)
            not_before_ms = self.clock.mono_ms() + self.follow.lease.length_ms if deposed else 0
            coordinator.lead(partition, not_before_ms=not_before_ms)

    def _deposed_unheard(self, partition: Partition, before: BrokerId) -> bool:
        """Whether who led may live, not know it, and not be waited for, as it is no replica any more (rule A12).

        So it is where a live broker was unregistered, or a reassignment was turned to another aim. Who completes one
        has laid down what it coordinated.
        """
        state = self.metadata.partition(partition.topic_id, partition.index)
        if state is None or before in (NO_LEADER, self.broker):
            return False
        broker = self.metadata.brokers.get(before)
        turned = before not in state.replicas and bool(state.adding or state.removing)
        return broker is None or (turned and not broker.fenced)

    def stopped_leading(self, partition: Partition) -> None:
        coordinator = self.coordinators.get(partition.topic)
        if coordinator is not None:
            coordinator.resign(partition.index)

    @property
    def coordinators(self) -> dict[str, Coordinator[GroupShard] | Coordinator[TransactionShard]]:
        """By the name of their topic."""
        return {OFFSETS_TOPIC: self.groups, TRANSACTION_TOPIC: self.transactions}

    def lay_down_coordinating(self) -> None:
        """Coordinate nothing, whatever is led here, until it is known what is."""
        for coordinator in self.coordinators.values():
            coordinator.lay_down()

    def resume_coordinating(self) -> None:
        """All was laid down before a change that might have ended it: take up what is led here still."""
        for topic, coordinator in self.coordinators.items():
            led = [each for each in self.replicas.all() if each.topic == topic and each.leader is not None]
            coordinator.take_up(led)

    def _partitions_of(self, name: str) -> int:
        topic = self.metadata.topic(name)
        return 0 if topic is None else len(topic.partitions)

    @property
    def has_transactions(self) -> bool:
        """Whether every broker of the cluster coordinates transactions and takes their markers."""
        return self.metadata.metadata_version() >= TRANSACTIONS

    @property
    def has_consumer_groups(self) -> bool:
        """Whether every broker coordinates groups of the consumer protocol, and no operator forbids it."""
        return features.level(self.metadata, features.GROUP_VERSION) > 0

    # --- questions of the handlers ---

    def partition(self, name: str, topic_id: bytes, index: int) -> Partition | ErrorCode:
        """The replica here, by name or (where that is empty) by id; else why there is none."""
        if name:
            found = self.replicas.by_name.get((name, index))
            if found is not None:
                return found
            topic = self.metadata.topic(name)
            if topic is None or not 0 <= index < len(topic.partitions):
                return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return self._not_here(topic.topic_id, index)
        found = self.replicas.by_id.get((topic_id, index))
        if found is not None:
            return found
        topic = self.metadata.topic_by_id(topic_id)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if not 0 <= index < len(topic.partitions):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return self._not_here(topic_id, index)

    def _not_here(self, topic_id: bytes, index: int) -> ErrorCode:
        offline = self.replicas.offline.holds(topic_id, index)
        return ErrorCode.KAFKA_STORAGE_ERROR if offline else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def fence_early(self) -> None:
        """Before it starts: the store cannot look at once who lives, so those who refuse are fenced (rule C8)."""
        early_fence = self.doubts.early_fence = EarlyFence(self)
        self.follow.refusing = early_fence.refusing
        for coordinator in self.coordinators.values():
            coordinator.answers_from_ms = early_fence.lease_of_fenced_ends_ms

    def membership(self) -> PeerProof:
        """The steps by which whoever has connected proves to be a broker of this cluster."""
        return PeerProof(self)

    def may_lead(self) -> bool:
        """Whether we may answer as a leader or coordinator now (rule A12)."""
        return self.follow.lease_valid()

    def suspect(self, partition: Partition, offset: int) -> None:
        self.scrubber.suspect(partition, offset)

    def _lapsed(self) -> None:
        """Whoever waits for a commit would wait in vain: followers get nothing from us any more."""
        for partition in self.replicas.all():
            partition.lapsed()

    def controller_for_clients(self) -> int:
        """Any broker takes what Kafka's clients send to a controller; the caretaker is named."""
        return self.metadata.caretaker()

    async def create_topic_as_configured(self, name: str) -> ErrorCode:
        """Create a topic that somebody asked for, or an internal one; waits until it is ready."""
        command = creation_of(name, TopicId(new_id(self.entropy)), self.config)
        outcome = await self.follow.submit(command)
        return outcome.code if isinstance(outcome, ApiError) else ErrorCode.NONE

    def log_start_moved(self) -> bool:
        """Whether all starts are on disk now: DeleteRecords promises none that is not."""
        return self.replicas.upkeep.note_starts()

    def committed_offsets(self) -> Iterator[tuple[str, str, int, int]]:
        """(group, topic, partition, offset), for metrics."""
        for shard in self.groups.shards():
            yield from shard.offsets.everything()

    def group_members(self) -> Iterator[tuple[str, int]]:
        for shard in self.groups.shards():
            for group in sorted(shard.all_groups(), key=lambda each: each.group_id):
                yield group.group_id, group.size


def _upkeep(config: BrokerConfig) -> Upkeep:
    return Upkeep(
        balances=config.auto_leader_rebalance_enable,
        interval_ms=config.leader_imbalance_check_interval_seconds * 1000,
        factors={
            OFFSETS_TOPIC: config.offsets_topic_replication_factor,
            TRANSACTION_TOPIC: config.transaction_state_log_replication_factor,
        },
    )


def _ignore(changes: Changes) -> None:
    """The logs are closed: what the metadata says is for the next start."""
