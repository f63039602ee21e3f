"""Any order of commands: epochs grow, leaders hold every committed record, a snapshot equals the state.

Beside the cluster runs a model of the records: how many each replica holds, and how many were committed under rule A3.
"""

from __future__ import annotations

from clusters import Decisions, register, topic_id
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.cluster.broker_commands import DrainBroker, FenceBroker, UnfenceBroker, UnregisterBroker
from ottla.cluster.commands import (
    MIN_IN_SYNC,
    AllocateProducerIds,
    AlterReassignment,
    BalancedPartition,
    BalanceLeaders,
    ChangeInSync,
    ConfigEdit,
    ConfigOperation,
    CreatePartitions,
    CreateTopic,
    DeleteTopic,
    DeposeShortLeader,
    EditConfigs,
    ElectLeader,
    ReplicaEpoch,
    ResignLeadership,
    WithdrawReplica,
)
from ottla.kernel.errors import ApiError
from ottla.kernel.ids import NO_LEADER
from ottla.metadata.partition_state import PartitionState
from ottla.metadata.snapshot import load_snapshot, take_snapshot
from ottla.metadata.state import ALL_BROKERS, BROKER_RESOURCE, TOPIC_RESOURCE, Metadata

BROKERS = st.integers(1, 4)
REQUIRED = st.none() | st.integers(1, 3)
NAMES = st.sampled_from(["a", "b", "c.d", "c_d"])


def told(state: Metadata) -> tuple[object, ...]:
    """A state's content, without the versions at which topics were changed."""
    topics = {one.topic_id: (one.name, one.ready, one.configs, one.partitions) for one in state.topics.values()}
    owner = state.producer_id_owner if state.next_producer_id else None
    return (
        state.version, state.cluster_id, state.secret, state.features, state.brokers, topics, state.configs,
        state.next_producer_id, owner, [topic.name for topic in state.visible_topics()],
    )  # fmt: skip


class Records:
    """The number of records that each replica of one partition holds."""

    def __init__(self) -> None:
        self.held: dict[int, int] = {}
        self.committed = 0


class ClusterMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.decisions = Decisions()
        self.records: dict[tuple[bytes, int], Records] = {}
        self.before: dict[tuple[bytes, int], PartitionState] = {}
        self.unclean: set[tuple[bytes, int]] = set()
        self.unclean_epochs: dict[tuple[bytes, int], int] = {}
        self.made = 0

    @property
    def state(self) -> Metadata:
        return self.decisions.state

    @initialize()
    def the_first_two_brokers(self) -> None:
        self.decisions.do(register(1))
        self.decisions.do(register(2))

    def submit(self, command, by=None) -> None:
        """Apply a command if it is allowed."""
        if by is None and not self.state.live_brokers():
            return
        if not isinstance(self.decisions.ask(command, by), ApiError):
            self.decisions.do(command, by)

    # Brokers

    @rule(number=BROKERS, required=REQUIRED)
    def a_broker_starts(self, number: int, required: int | None) -> None:
        options = {} if required is None else {"min_insync_replicas": str(required)}
        self.decisions.do(register(number, **options))

    @rule(number=BROKERS)
    def a_broker_is_fenced(self, number: int) -> None:
        if number in self.state.brokers:
            self.submit(FenceBroker(number, self.decisions.epoch(number)))

    @rule(number=BROKERS)
    def a_broker_is_unfenced(self, number: int) -> None:
        if number in self.state.brokers:
            self.submit(UnfenceBroker(number, self.decisions.epoch(number)), by=number)

    @rule(number=BROKERS)
    def a_broker_hangs_for_a_while(self, number: int) -> None:
        self.a_broker_is_fenced(number)
        self.each_partition_is_as_it_should_be()
        self.a_leader_holds_what_was_committed()
        self.a_broker_is_unfenced(number)

    @rule(number=BROKERS)
    def a_broker_drains(self, number: int) -> None:
        if number in self.state.brokers:
            self.submit(DrainBroker(number, self.decisions.epoch(number)), by=number)

    @rule(number=BROKERS)
    def a_broker_is_unregistered(self, number: int) -> None:
        self.submit(UnregisterBroker(number))

    # Topics

    @rule(name=NAMES, partitions=st.integers(1, 3), replicas=st.integers(1, 4), required=REQUIRED)
    def a_topic_is_created(self, name: str, partitions: int, replicas: int, required: int | None) -> None:
        self.made += 1
        unused = topic_id(f"{name}-{self.made}")
        configs = () if required is None else ((MIN_IN_SYNC, str(required)),)
        self.submit(CreateTopic(name, unused, partitions, replicas, configs=configs))

    @rule(name=NAMES)
    def a_topic_is_deleted(self, name: str) -> None:
        topic = self.state.topic(name)
        if topic is not None:
            self.submit(DeleteTopic(name, topic.topic_id))

    @rule(name=NAMES, total=st.integers(1, 5))
    def a_topic_grows(self, name: str, total: int) -> None:
        self.submit(CreatePartitions(name, total))

    @rule(name=NAMES, value=st.integers(0, 9), operation=st.sampled_from(ConfigOperation))
    def an_option_is_edited(self, name: str, value: int, operation: ConfigOperation) -> None:
        self.submit(EditConfigs(TOPIC_RESOURCE, name, (ConfigEdit("cleanup.policy", operation, str(value)),)))

    @rule(name=NAMES | st.just(ALL_BROKERS), required=REQUIRED)
    def more_or_fewer_are_required_in_sync(self, name: str, required: int | None) -> None:
        kind = BROKER_RESOURCE if name == ALL_BROKERS else TOPIC_RESOURCE
        operation = ConfigOperation.DELETE if required is None else ConfigOperation.SET
        self.submit(EditConfigs(kind, name, (ConfigEdit(MIN_IN_SYNC, operation, str(required or "")),)))

    @rule()
    def producer_ids_are_given_out(self) -> None:
        before = self.state.next_producer_id
        self.submit(AllocateProducerIds(10))
        assert self.state.next_producer_id in (before, before + 10)

    # Records

    def _partitions(self) -> list[PartitionState]:
        return [one for topic in self.state.visible_topics() for one in topic.partitions]

    @precondition(lambda self: self._partitions())
    @rule(data=st.data())
    def a_leader_writes_and_some_follow(self, data: st.DataObject) -> None:
        partition = data.draw(st.sampled_from(self._partitions()))
        if not partition.has_leader:
            return
        records = self._records(partition)
        top = records.held.get(partition.leader, 0) + data.draw(st.integers(0, 3))
        records.held[partition.leader] = top
        for broker_id in partition.replicas:
            if self.state.is_live(broker_id) and data.draw(st.booleans()):
                records.held[broker_id] = top
        self._commit(partition, records)

    @precondition(lambda self: self._partitions())
    @rule(data=st.data())
    def a_leader_proposes_another_set(self, data: st.DataObject) -> None:
        """The leader may add replicas that hold everything it holds, and may drop any that are in the set."""
        partition = data.draw(st.sampled_from(self._partitions()))
        if not partition.has_leader:
            return
        records = self._records(partition)
        top = records.held.get(partition.leader, 0)
        wanted = [partition.leader]
        for broker_id in partition.replicas:
            complete = records.held.get(broker_id, 0) == top
            if broker_id == partition.leader or broker_id not in self.state.brokers:
                continue
            if (broker_id in partition.in_sync or complete) and data.draw(st.booleans()):
                wanted.append(broker_id)
        self.submit(
            ChangeInSync(
                partition.topic_id,
                partition.partition,
                partition.leader_epoch,
                partition.partition_epoch,
                tuple(ReplicaEpoch(number, self.decisions.epoch(number)) for number in wanted),
            ),
            by=partition.leader,
        )

    @precondition(lambda self: self._partitions())
    @rule(data=st.data())
    def a_damaged_leader_resigns(self, data: st.DataObject) -> None:
        partition = data.draw(st.sampled_from(self._partitions()))
        if partition.has_leader:
            command = ResignLeadership(partition.topic_id, partition.partition, partition.leader_epoch)
            self.submit(command, by=partition.leader)

    @precondition(lambda self: self._partitions())
    @rule(data=st.data())
    def a_follower_withdraws_and_begins_anew(self, data: st.DataObject) -> None:
        partition = data.draw(st.sampled_from(self._partitions()))
        broker_id = data.draw(st.sampled_from(partition.replicas))
        command = WithdrawReplica(partition.topic_id, partition.partition, partition.leader_epoch)
        if self.state.is_live(broker_id) and not isinstance(self.decisions.ask(command, broker_id), ApiError):
            self.decisions.do(command, broker_id)
            self._records(partition).held[broker_id] = 0

    @precondition(lambda self: self._partitions())
    @rule(data=st.data())
    def a_leader_lacks_what_was_committed_and_is_deposed(self, data: st.DataObject) -> None:
        partition = data.draw(st.sampled_from(self._partitions()))
        broker_id = data.draw(st.sampled_from(partition.replicas))
        command = DeposeShortLeader(partition.topic_id, partition.partition, partition.leader_epoch)
        if self.state.is_live(broker_id) and not isinstance(self.decisions.ask(command, broker_id), ApiError):
            self._records(partition).held[partition.leader] = 0
            self.decisions.do(command, broker_id)

    @precondition(lambda self: self._partitions())
    @rule(data=st.data(), unclean=st.booleans())
    def an_election_is_asked_for(self, data: st.DataObject, unclean: bool) -> None:
        partition = data.draw(st.sampled_from(self._partitions()))
        name = self.state.topics[partition.topic_id].name
        command = ElectLeader(name, partition.partition, unclean=unclean)
        if self.state.live_brokers() and not isinstance(self.decisions.ask(command), ApiError):
            if unclean:
                key = (partition.topic_id, partition.partition)
                self.unclean.add(key)
                self.unclean_epochs[key] = partition.leader_epoch + 1
            self.decisions.do(command)

    @precondition(lambda self: self._partitions())
    @rule(data=st.data(), wanted=st.none() | st.lists(BROKERS, min_size=1, max_size=3, unique=True))
    def other_replicas_are_wanted(self, data: st.DataObject, wanted: list[int] | None) -> None:
        partition = data.draw(st.sampled_from(self._partitions()))
        name = self.state.topics[partition.topic_id].name
        self.submit(AlterReassignment(name, partition.partition, None if wanted is None else tuple(wanted)))

    @precondition(lambda self: self._partitions())
    @rule()
    def leaders_are_balanced(self) -> None:
        seen = tuple(BalancedPartition(one.topic_id, one.partition, one.partition_epoch) for one in self._partitions())
        self.submit(BalanceLeaders(seen))

    def _records(self, partition: PartitionState) -> Records:
        return self.records.setdefault((partition.topic_id, partition.partition), Records())

    def _required(self, partition: PartitionState) -> int:
        """The minimum in sync that the leader uses: its own file counts if nothing else is set."""
        said = self.state.topics[partition.topic_id].configs.get(MIN_IN_SYNC)
        said = said or self.state.config(BROKER_RESOURCE, ALL_BROKERS).get(MIN_IN_SYNC)
        leader = self.state.brokers.get(partition.leader)
        said = said or (leader and leader.option(MIN_IN_SYNC)) or "1"
        return min(int(said), len(partition.replicas))

    def _commit(self, partition: PartitionState, records: Records) -> None:
        if len(partition.in_sync) >= self._required(partition):
            on_all = min(records.held.get(broker_id, 0) for broker_id in partition.in_sync)
            records.committed = max(records.committed, on_all)

    # Invariants

    @invariant()
    def each_partition_is_as_it_should_be(self) -> None:
        for partition in self._partitions():
            replicas = set(partition.replicas)
            assert set(partition.in_sync) <= replicas
            assert set(partition.eligible) <= replicas
            assert not set(partition.eligible) & set(partition.in_sync)
            assert len(partition.in_sync) == len(set(partition.in_sync))
            assert partition.in_sync or partition.eligible, "somebody holds what was committed"
            if partition.has_leader:
                assert partition.leader in partition.in_sync
                assert self.state.is_live(partition.leader)
            else:
                assert partition.leader == NO_LEADER
                candidates = {*partition.in_sync, *partition.eligible}
                assert not any(self.state.is_active(broker_id) for broker_id in candidates)
            assert set(partition.adding) <= replicas
            assert set(partition.removing) <= replicas
            assert not set(partition.adding) & set(partition.removing)
            if partition.eligible and partition.has_leader:
                assert len(partition.in_sync) < self._required(partition)

    @invariant()
    def epochs_only_grow(self) -> None:
        now = {(one.topic_id, one.partition): one for one in self._partitions()}
        for key, before in self.before.items():
            after = now.get(key)
            if after is None or after == before:
                continue
            assert after.partition_epoch > before.partition_epoch
            assert after.leader_epoch >= before.leader_epoch
            if after.leader != before.leader:
                assert after.leader_epoch > before.leader_epoch
        self.before = now

    @invariant()
    def a_leader_holds_what_was_committed(self) -> None:
        for partition in self._partitions():
            key = (partition.topic_id, partition.partition)
            records = self.records.get(key)
            if records is None:
                continue
            for gone in records.held.keys() - set(partition.replicas):
                del records.held[gone]
            if not partition.has_leader:
                continue
            held = records.held.get(partition.leader, 0)
            if key in self.unclean:
                self.unclean.discard(key)
                records.committed = min(records.committed, held)
            assert held >= records.committed, "a leader was elected that lacks committed records"
            self._truncate(partition, records, held)
            for broker_id in (*partition.in_sync, *partition.eligible):
                assert records.held.get(broker_id, 0) >= records.committed, "counted, but it lacks committed records"

    @invariant()
    def it_is_known_which_leader_epoch_began_uncleanly(self) -> None:
        for partition in self._partitions():
            assert partition.unclean_epoch == self.unclean_epochs.get((partition.topic_id, partition.partition), -1)

    def _truncate(self, partition: PartitionState, records: Records, held: int) -> None:
        """Cut live followers back to what their leader has."""
        for broker_id in partition.replicas:
            if self.state.is_live(broker_id):
                records.held[broker_id] = min(records.held.get(broker_id, 0), held)

    @invariant()
    def a_snapshot_is_the_state(self) -> None:
        assert told(load_snapshot(take_snapshot(self.state))) == told(self.state)

    def teardown(self) -> None:
        """Check that applying the whole log again gives the same state."""
        again = Metadata()
        for version, body in enumerate(self.decisions.entries, 1):
            again.apply(version, body)
        assert told(again) == told(self.state)


ClusterMachine.TestCase.settings = settings(
    max_examples=120, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck)
)
test_any_order_of_commands = ClusterMachine.TestCase
