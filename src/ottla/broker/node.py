"""The broker, wired together without a socket: metadata, replicas, coordinators, dispatch.

server/broker_server.py and sim/ build one over their own seams. No part made here knows the node.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.broker.broker_time import BrokerTime, Uptime, no_uptime
from ottla.broker.control.ages import Ages
from ottla.broker.control.clock_rounds import ClockRounds
from ottla.broker.control.departure import hand_over, say_farewell
from ottla.broker.control.doubts import Doubts
from ottla.broker.control.early_fence import EarlyFence
from ottla.broker.control.incarnations import refuse_older_store
from ottla.broker.control.longest_logs import LongestLogs
from ottla.broker.control.membership import bound_by
from ottla.broker.control.peers import Peers
from ottla.broker.control.producer_ids import ProducerIds
from ottla.broker.control.signs_of_life import SignsOfLife
from ottla.broker.control.unclean_elections import UncleanElections
from ottla.broker.coordinators.group_coordinator import OFFSETS_TOPIC, GroupCoordinator
from ottla.broker.coordinators.group_view import ClusterTopics, GroupOptions
from ottla.broker.coordinators.leading import Coordinators
from ottla.broker.coordinators.marker_sender import MarkerSender
from ottla.broker.coordinators.marker_writing import MarkerWriter
from ottla.broker.coordinators.transaction_coordinator import TRANSACTION_TOPIC, TransactionCoordinator
from ottla.broker.coordinators.verification import Verification
from ottla.broker.environment import Certificates, Environment
from ottla.broker.failures import Failures
from ottla.broker.metadata_log.metadata_follow import MetadataFollow
from ottla.broker.options import BrokerOptions
from ottla.broker.replicas.compactor import CompactionWork, Compactor, InTurns
from ottla.broker.replicas.doubtful_replicas import by_topic
from ottla.broker.replicas.full_disks import FullDisks
from ottla.broker.replicas.lookup import Lookup
from ottla.broker.replicas.reconcile import Care, Replicas
from ottla.broker.replicas.repairs import Repairs
from ottla.broker.replicas.scrubber import Scrubber, ScrubInTurns, ScrubWork
from ottla.broker.replicas.throttle import throttles
from ottla.broker.requests.client_quotas import ClientQuotas
from ottla.broker.requests.dispatch import Dispatch
from ottla.broker.requests.endpoints import Endpoints
from ottla.broker.requests.fetch_sessions import FetchSessions
from ottla.broker.requests.gate import Gate
from ottla.broker.requests.metadata_fragments import Fragments
from ottla.broker.requests.services import Services
from ottla.broker.requests.telemetry import Telemetry
from ottla.broker.requests.tokens import Tokens
from ottla.broker.rounds import Rounds
from ottla.broker.waiting import Deadlines
from ottla.cluster.partitions import DECIDING
from ottla.cluster.upkeep import Upkeep
from ottla.config.resolve import Layers
from ottla.kernel.ids import BrokerId, TopicId, TopicPartition, new_id, topic_id_text
from ottla.kernel.seams import Clock, Coordination, Disk, Entropy, Network, Syncer
from ottla.kernel.story import Slot, run_story
from ottla.metadata.broker_state import Listener
from ottla.metadata.changes import Changes
from ottla.metadata.state import BROKER_RESOURCE, Metadata
from ottla.storage.directory.directory import HeldLock

if TYPE_CHECKING:
    from ottla.broker.replicas.partition import Partition
    from ottla.broker.requests.rights import Rights
    from ottla.config.broker import BrokerConfig
    from ottla.kernel.errors import ErrorCode
    from ottla.storage.log import Log

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
        uptime: Callable[[], Uptime | None] = no_uptime,
        audit: Callable[[Mapping[str, object]], None] | None = None,
    ) -> None:
        """`needed_directory`: the log directory that holds the store, without which this broker cannot go on.

        `uptime`: how long the machine is up, which measures time across restarts. `audit`: takes events, never waits.
        """
        self._coordination, self._audit = coordination, audit
        options = BrokerOptions(layers)
        self.time = BrokerTime(clock, lambda: options.config, uptime)
        self.around = self._new_environment(options, clock, entropy, syncer, on_fatal)
        around = self.around
        self.broker, self.follow = around.broker, around.follow
        self.doubts, self.endpoints = Doubts(around), Endpoints(around)
        self.peers = Peers(around, network, self.doubts)
        self.leader_throttle, self.follower_throttle = throttles(around.deadlines, around.config)
        self.groups = self._new_groups()
        self.markers = MarkerWriter(around, self._partition_here, self.groups)
        self.producer_ids = ProducerIds(self.follow)
        self.transactions = self._new_transactions()
        self.coordinators = Coordinators(around, self.groups, self.transactions, self._led)
        self.replicas = self._new_replicas(disk, data_directories, needed_directory)
        self.lookup = Lookup(around, self.replicas)
        around.failures.go_on_without = self.replicas.directory_failures.go_on_without
        self.compactor = Compactor(
            around,
            self.replicas,
            compaction or InTurns(disk, clock),
            self._suspect,
        )
        self.repairs = Repairs(around, self.replicas, self.compactor, self.peers)
        self.scrubber = Scrubber(
            around, self.replicas, self.compactor, self.repairs, scrub or ScrubInTurns(disk, clock)
        )
        self.longest_logs = LongestLogs(around, self.peers, self._log_of)
        elections = UncleanElections(around, self.longest_logs)
        self._ages = Ages(around, self._coordination, self.replicas.directories)
        self._clock_rounds = ClockRounds(around, self.time, self.peers, self.replicas)
        self._rounds = Rounds(
            around, self.replicas, self.compactor, self.scrubber, elections, self._ages, self._clock_rounds
        )
        self.services = self._new_services()
        self.dispatch = Dispatch(self.services)
        self.gate = Gate(self.services, self.dispatch)
        self._topics_here: dict[bytes, str] = {}

    # --- wiring ---

    def _new_environment(
        self, options: BrokerOptions, clock: Clock, entropy: Entropy, syncer: Syncer, on_fatal: Callable[[str], None]
    ) -> Environment:
        failures, deadlines = Failures(on_fatal), Deadlines(clock)
        config = options.config
        broker = BrokerId(config.node_id)
        slots = config.max_incremental_fetch_session_cache_slots
        self.fetch_sessions = FetchSessions(clock, entropy, slots=slots, eviction_ms=_SESSION_EVICTION_MS)
        session_ms = config.broker_session_timeout_ms
        follow = MetadataFollow(self._coordination, clock, deadlines, entropy, broker, session_timeout_ms=session_ms)
        follow.on_fatal = failures.stop_for
        follow.lease.on_lapse = self._lapsed
        follow.upkeep = _upkeep(config)
        return Environment(
            broker=broker,
            clock=clock,
            entropy=entropy,
            deadlines=deadlines,
            syncer=syncer,
            follow=follow,
            time=self.time,
            options=options,
            failures=failures,
            certificates=Certificates(),
        )

    def _new_groups(self) -> GroupCoordinator:
        around = self.around
        return GroupCoordinator(
            around,
            around.entropy,
            around.config,
            lambda: self._partitions_of(OFFSETS_TOPIC),
            topics=ClusterTopics(lambda: around.metadata),
            consumer_settings=GroupOptions(lambda: around.metadata, lambda: around.options.layers).consumer,
        )

    def _new_transactions(self) -> TransactionCoordinator:
        sender = MarkerSender(self.around, self.peers, self.markers)
        new_id = self.producer_ids.take_now
        return TransactionCoordinator(self.around, lambda: self._partitions_of(TRANSACTION_TOPIC), new_id, sender)

    def _new_replicas(self, disk: Disk, paths: Sequence[str], needed: str | None) -> Replicas:
        care = Care(is_compacting=self._is_compacting, suspect=self._suspect, repair=self._repair)
        return Replicas(
            self.around,
            disk,
            paths,
            needed=needed,
            peers=self.peers,
            throttle=self.follower_throttle,
            coordinating=self.coordinators,
            care=care,
        )

    def _new_services(self) -> Services:
        around = self.around
        return Services(
            broker=around.broker,
            clock=around.clock,
            entropy=around.entropy,
            deadlines=around.deadlines,
            syncer=around.syncer,
            follow=around.follow,
            time=around.time,
            options=around.options,
            failures=around.failures,
            certificates=around.certificates,
            replicas=self.replicas,
            partition=self.lookup.partition,
            scrubber=self.scrubber,
            full_disks=FullDisks(around.deadlines, lambda log: self.replicas.directories.of(log).path),
            leader_throttle=self.leader_throttle,
            groups=self.groups,
            transactions=self.transactions,
            coordinators=self.coordinators,
            verification=Verification(around, self.peers, self.transactions),
            markers=self.markers,
            producer_ids=self.producer_ids,
            longest_logs=self.longest_logs,
            doubts=self.doubts,
            signs_of_life=SignsOfLife(around, self.peers),
            endpoints=self.endpoints,
            fetch_sessions=self.fetch_sessions,
            fragments=Fragments(),
            tokens=Tokens(around.config, lambda: around.metadata),
            quotas=ClientQuotas(around.deadlines),
            telemetry=Telemetry(),
            rights=_rights(around, self._audit),
            audit=self._audit,
        )

    # Calls for parts that are built before the part they call.

    def _partition_here(self, name: str, topic_id: bytes, index: int) -> Partition | ErrorCode:
        return self.lookup.partition(name, topic_id, index)

    def _led(self) -> list[Partition]:
        return self.replicas.led()

    def _is_compacting(self, partition: Partition) -> bool:
        return self.compactor.works_on(partition)

    def _suspect(self, partition: Partition, offset: int | None) -> None:
        self.scrubber.suspect(partition, offset)

    def _repair(self, partition: Partition) -> None:
        self.repairs.look(partition)

    def _partitions_of(self, name: str) -> int:
        topic = self.metadata.topic(name)
        return 0 if topic is None else len(topic.partitions)

    def _log_of(self, place: TopicPartition) -> Log | None:
        partition = self.replicas.by_name.get(place)
        return None if partition is None else partition.log

    def fence_early(self) -> None:
        """Fence brokers that refuse connections (rule C8). Called before the start if the store reports deaths late."""
        early_fence = self.doubts.early_fence = EarlyFence(self.around, self.peers)
        self.follow.refusing = early_fence.refusing
        self.coordinators.wait_for_fenced(early_fence.lease_of_fenced_ends_ms)

    # --- life ---

    def start(self, host: str, listeners: tuple[Listener, ...], lock: Lock | None = None) -> Slot[None]:
        """Recover first, register second, serve third (rules A7, A8)."""
        return run_story(self._start(host, listeners, lock))

    async def _start(self, host: str, listeners: tuple[Listener, ...], lock: Lock | None) -> None:
        await self.follow.start()
        self._look_at_clock()
        if self.metadata.cluster_id:
            await refuse_older_store(self.around, self.replicas.directories.disk, self.replicas.directories.paths)
            incarnations = self.replicas.directories.incarnations
            incarnations.ages = await self._ages.stored()
            self.replicas.open(self.metadata.cluster_id, self._new_id, lock)
            incarnations.ages = await self._ages.opened(incarnations.ages)
            await self._register(host, listeners)
        else:  # the first broker of a new cluster: there is nothing to recover
            self.replicas.directories.begin_anew(self._new_id)
            await self._register(host, listeners)
            self.replicas.open(self.metadata.cluster_id, self._new_id, lock)
        # Before this broker leads, or gives a leader a receipt.
        self.replicas.directories.incarnations.registered(self.replicas.directory_failures.take_offline)
        self._reconcile(EVERYTHING)
        self.replicas.moves.go_on()
        self.follow.on_reconcile = self._reconcile
        self._rounds.start()
        cluster_id, here = self.metadata.cluster_id, len(self.replicas)
        log.info("broker %d serves cluster %s with %d replicas here", self.broker, cluster_id, here)

    def _look_at_clock(self) -> None:
        """Compare the wall clock with the last run's, before any directory is written to."""
        directories = self.replicas.directories
        others = any(broker != self.broker for broker in self.metadata.brokers)
        self.time.begin(directories.disk, directories.paths, others=others)

    async def _register(self, host: str, listeners: tuple[Listener, ...]) -> None:
        directories, static = self.replicas.directories, self.around.options.layers.static
        registration = self.follow.registration(host=host, rack=self.config.broker_rack, listeners=listeners)
        await self.follow.register(
            registration._replace(
                damaged=directories.doubtful.damaged(),
                unreadable=directories.doubtful.unreadable(),
                short=directories.doubtful.short(),
                offline=by_topic(sorted(directories.offline)),
                directories=directories.ids(),
                held=directories.incarnations.held(),
                rolled_back=directories.doubtful.rolled_back(),
                accepted_store=directories.incarnations.accepted_store(),
                options=tuple((name, static[name]) for name in DECIDING if name in static)
                + bound_by(listener.security_protocol for listener in listeners),
            )
        )
        directories.offline.update(dict.fromkeys(directories.unreadable.made_offline()))

    def _new_id(self) -> str:
        return topic_id_text(new_id(self.around.entropy))

    def hand_over(self) -> Slot[None]:
        """Hand leaderships over before a stop, while clients are still served."""
        return run_story(hand_over(self.around, self.coordinators, self.replicas.led()))

    def stop(self, *, clean: bool) -> Slot[None]:
        return run_story(self._stop(clean=clean))

    async def _stop(self, *, clean: bool) -> None:
        self._rounds.stop()
        self.compactor.stop()
        self.scrubber.stop()
        self.repairs.stop()
        self.peers.close()
        self.coordinators.close()
        epoch = self.metadata.brokers[self.broker].epoch if self.broker in self.metadata.brokers else -1
        self.follow.on_reconcile = _ignore
        if clean:
            self._clock_rounds.last()
        self.replicas.close(clean=clean, broker_epoch=epoch)
        if clean and self.around.failures.reason is None:
            await say_farewell(self.around, self.replicas.directories.closed)
        log.info("broker %d has stopped", self.broker)
        self.follow.close()
        self._coordination.close()

    def _lapsed(self) -> None:
        """Answer all requests that wait for a commit, as the lease has run out."""
        for partition in self.replicas.all():
            partition.lapsed()

    # --- what the metadata says ---

    @property
    def metadata(self) -> Metadata:
        """The state of the cluster as far as it is known here."""
        return self.follow.metadata

    @property
    def config(self) -> BrokerConfig:
        """The broker's options as they are now."""
        return self.around.options.config

    def _reconcile(self, changes: Changes) -> None:
        """Adapt this broker to the applied metadata."""
        metadata = self.metadata
        self._take_configs(changes)
        if changes.everything or changes.features:
            self.transactions.take_features()
        if changes.everything or changes.quotas:
            self.services.quotas.reconcile(metadata)
        if (changes.everything or changes.acls) and self.services.rights is not None:
            for partition in self.replicas.all():
                partition.readers.mark()  # fetches that wait ask for their rights again
        if changes.everything or changes.brokers:
            self.endpoints.recently_dead.reconcile(metadata)  # before answers that wait for doubts are released
            self.doubts.reconcile()
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
            self.around.options.forget(TopicId(topic_id))
            if metadata.name_taken(name) is None:  # unless a new topic has that name by now
                self.replicas.traffic.pop(name, None)
        if gone:
            self.groups.topics_deleted({name: topic_id for topic_id, name in gone.items()})

    def _take_configs(self, changes: Changes) -> None:
        """Apply broker options that were set while it runs; topics inherit from them."""
        if not changes.everything and not any(kind == BROKER_RESOURCE for kind, _ in changes.configs):
            return
        metadata, options = self.metadata, self.around.options
        options.take(metadata, self.broker)
        self.leader_throttle.rate = options.config.leader_replication_throttled_rate
        self.follower_throttle.rate = options.config.follower_replication_throttled_rate
        self.time.look()
        self.groups.reconfigure(options.config)
        self.transactions.reconfigure(options.config)
        for topic in metadata.topics.values():
            config = options.topic_config(topic)
            for partition in topic.partitions:
                replica = self.replicas.by_id.get((topic.topic_id, partition.partition))
                if replica is not None:
                    self.replicas.configure(replica, partition, config)


def _rights(around: Environment, audit: Callable[[Mapping[str, object]], None] | None) -> Rights | None:
    """The part that limits clients, where `authorizer.class.name` asks for it."""
    if not around.config.authorizer_class_name:
        return None
    from ottla.broker.requests.rights import Rights

    return Rights(around.config, lambda: around.metadata, audit)


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
    """Do nothing: the logs are closed, and the next start applies the metadata."""
