"""Random sequences of requests, timeouts and moves of the coordinator: the promises of groups hold."""

from collections import defaultdict

from group_desk import Desk, offers, subscription
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ottla.groups.group import GroupState
from ottla.kernel.errors import ErrorCode
from ottla.messages.leave_group import MemberIdentity

GROUPS = st.sampled_from(["g", "h"])
INSTANCES = st.sampled_from([None, None, "i", "j"])
METADATA = st.sampled_from([subscription("t"), subscription("t", "u")])
PLACES = st.integers(0, 7)


class GroupLives(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.desk = Desk(initial_rebalance_delay_ms=3_000, max_size=4)
        self.members: dict[str, list[str]] = defaultdict(list)
        self.waiting = []
        self.generations = defaultdict(int)
        self.owners = {}
        self.acknowledged = defaultdict(dict)

    def some_member(self, group: str, place: int) -> tuple[str, str | None, int]:
        known = self.members[group]
        member_id = known[place % len(known)] if known else "nobody"
        live = self.desk.shard.groups.get(group)
        instance = live.members[member_id].instance_id if live and member_id in live.members else None
        return member_id, instance, live.generation if live else 1

    def watch(self, group: str, slot) -> None:
        self.waiting.append((group, slot))
        self.collect()

    def collect(self) -> None:
        """Check the answers that have come: each generation must be newer than all earlier ones of its group."""
        still = []
        for group, slot in self.waiting:
            if not slot.full:
                still.append((group, slot))
                continue
            answer = slot.result()
            if hasattr(answer, "generation_id"):
                given = answer.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED)
                if given and answer.member_id not in self.members[group]:
                    self.members[group].append(answer.member_id)
                if not answer.error_code:
                    assert answer.generation_id >= self.generations[group]
                    self.generations[group] = answer.generation_id
                    assert (answer.leader == answer.member_id) or not answer.members
        self.waiting = still

    @rule(group=GROUPS, instance=INSTANCES, metadata=METADATA, version=st.sampled_from([0, 3, 5, 9]))
    def join(self, group, instance, metadata, version):
        slot = self.desk.join(
            group=group,
            instance=instance,
            protocols=offers("range", metadata=metadata),
            version=version,
            rebalance_ms=20_000,
        )
        self.watch(group, slot)

    @rule(group=GROUPS, place=PLACES, metadata=METADATA)
    def join_again(self, group, place, metadata):
        member_id, instance, _ = self.some_member(group, place)
        slot = self.desk.join(
            member_id, group=group, instance=instance, protocols=offers("range", metadata=metadata), rebalance_ms=20_000
        )
        self.watch(group, slot)

    @rule(group=GROUPS, place=PLACES, behind=st.sampled_from([0, 0, 0, 1]))
    def sync(self, group, place, behind):
        member_id, instance, generation = self.some_member(group, place)
        live = self.desk.shard.groups.get(group)
        everyone = list(live.members) if live else []
        assignments = {each: f"{group}/{generation}/{each}".encode() for each in everyone}
        slot = self.desk.sync(member_id, generation - behind, assignments, group=group, instance=instance)
        self.watch(group, slot)
        if slot.full and not slot.result().error_code and slot.result().assignment:
            self.note_owner(group, generation, member_id, slot.result().assignment)

    def note_owner(self, group, generation, member_id, assignment):
        """Within a generation an assignment belongs to one member, and to a static one under its present id."""
        live = self.desk.shard.groups[group].members[member_id]
        owner = live.instance_id or member_id
        assert self.owners.setdefault((group, generation, assignment), owner) == owner

    @rule(group=GROUPS, place=PLACES)
    def heartbeat(self, group, place):
        member_id, instance, generation = self.some_member(group, place)
        error = self.desk.heartbeat(member_id, generation, group=group, instance=instance)
        live = self.desk.shard.groups.get(group)
        if error == ErrorCode.NONE:
            assert live.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE)
        if error == ErrorCode.REBALANCE_IN_PROGRESS:
            assert live.state is GroupState.PREPARING_REBALANCE

    @rule(group=GROUPS, place=PLACES)
    def leave(self, group, place):
        member_id, instance, _ = self.some_member(group, place)
        left = self.desk.leave(MemberIdentity(member_id=member_id, group_instance_id=instance), group=group)
        if not left.members[0].error_code:
            self.members[group].remove(member_id)
            assert group not in self.desk.shard.groups or member_id not in self.desk.shard.groups[group].members
        self.collect()

    @rule(milliseconds=st.sampled_from([1, 500, 3_000, 9_000, 20_000, 700_000]))
    def wait(self, milliseconds):
        self.desk.pass_ms(milliseconds)
        self.collect()

    @rule(group=GROUPS, place=PLACES, partition=st.integers(0, 2), offset=st.integers(0, 1000))
    def commit(self, group, place, partition, offset):
        member_id, instance, generation = self.some_member(group, place)
        self.note_commit(
            group, partition, offset,
            self.desk.commit(
                {("t", partition): offset}, group=group, member_id=member_id, generation=generation, instance=instance
            ),
        )  # fmt: skip

    @rule(group=GROUPS, partition=st.integers(0, 2), offset=st.integers(0, 1000))
    def commit_outside(self, group, partition, offset):
        self.note_commit(group, partition, offset, self.desk.commit({("t", partition): offset}, group=group))

    def note_commit(self, group, partition, offset, answer):
        if not isinstance(answer, ErrorCode):
            self.acknowledged[group]["t", partition] = offset

    @rule(group=GROUPS)
    def delete(self, group):
        if self.desk.delete(group) == ErrorCode.NONE:
            self.acknowledged.pop(group, None)
            self.generations.pop(group, None)
            self.owners = {key: owner for key, owner in self.owners.items() if key[0] != group}

    @rule(
        group=GROUPS,
        error=st.sampled_from([ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.KAFKA_STORAGE_ERROR]),
        place=PLACES,
    )
    def write_while_refused(self, group, error, place):
        self.desk.refusing = error
        member_id, instance, generation = self.some_member(group, place)
        assert isinstance(self.desk.commit({("t", 0): 1}, group=group), ErrorCode)
        self.desk.sync(member_id, generation, {}, group=group, instance=instance)
        self.desk.refusing = None
        self.collect()

    @rule()
    def move(self):
        """Move the coordinator: waiting requests are lost, and so is a generation without an assignment."""
        self.desk.fail_over()
        self.waiting = []
        for group in ("g", "h"):
            live = self.desk.shard.groups.get(group)
            self.generations[group] = live.generation if live else 0
            self.owners = {
                key: owner for key, owner in self.owners.items() if key[0] != group or key[1] <= self.generations[group]
            }

    @rule()
    @precondition(lambda self: self.desk.log)
    def restart_elsewhere(self):
        """Check that two replays give the same state."""
        assert persisted(self.desk.replayed()) == persisted(self.desk.replayed())

    @invariant()
    def nothing_acknowledged_is_lost_in_a_week(self):
        if self.desk.now_ms < 7 * 24 * 3_600_000:
            for group, offsets in self.acknowledged.items():
                assert self.desk.committed(group) == offsets

    @invariant()
    def the_log_says_what_the_shard_knows(self):
        replayed = self.desk.replayed()
        live = self.desk.shard
        for group_id in {*live.groups, *replayed.groups}:
            assert replayed.offsets.of(group_id) == live.offsets.of(group_id)
            group, read = live.groups.get(group_id), replayed.groups.get(group_id)
            if read is not None and read.written:
                assert group is not None
                assert read.generation <= group.generation
            if group is not None and group.written and group.state in (GroupState.STABLE, GroupState.EMPTY):
                assert read is not None
                assert persisted_group(read) == persisted_group(group)

    @invariant()
    def a_group_adds_up(self):
        for group in self.desk.shard.groups.values():
            assert group.joining == sum(member.joining is not None for member in group.members.values())
            assert set(group.static_members.values()) <= set(group.members)
            assert all(group.members[key].member_id == key for key in group.members)
            assert set(group.pending_sync) <= set(group.members)
            assert not set(group.pending) & set(group.members)
            if group.state is GroupState.EMPTY:
                assert not group.members
                assert group.leader is None
            elif group.state is not GroupState.PREPARING_REBALANCE:
                assert group.leader in group.members
                assert group.joining == 0
            if group.members and group.state is not GroupState.EMPTY:
                assert len(group.members) <= 4 or group.state is GroupState.PREPARING_REBALANCE


def persisted_group(group):
    members = [
        (
            each.member_id,
            each.instance_id,
            each.client_id,
            each.session_timeout_ms,
            each.rebalance_timeout_ms,
            each.assignment,
        )
        for each in group.members.values()
    ]
    return (
        group.state,
        group.generation,
        group.protocol_type,
        group.protocol_name,
        group.leader,
        group.subscribed,
        members,
    )


def persisted(shard):
    return {group_id: (persisted_group(group), shard.offsets.of(group_id)) for group_id, group in shard.groups.items()}


TestGroupLives = GroupLives.TestCase
TestGroupLives.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
