"""Leaders and in-sync sets: the replicas that may lead a partition, and those known to hold all committed records.

Called by `brokers.py` when brokers come and go, and by `decide.py` with proposals of leaders and requests of
administrators.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from ottla.cluster.broker_commands import RolledBack
from ottla.cluster.commands import (
    MIN_IN_SYNC,
    BalanceLeaders,
    ChangeInSync,
    CommandWriter,
    DeposeShortLeader,
    ElectLeader,
    ResignLeadership,
    WithdrawReplica,
)
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import NO_LEADER, BrokerId, LeaderEpoch, PartitionEpoch
from ottla.metadata.entries import Body, PartitionsChanged
from ottla.metadata.partition_state import PartitionState
from ottla.metadata.snapshot import split_partitions
from ottla.metadata.state import ALL_BROKERS, BROKER_RESOURCE, Metadata, Topic

UNCLEAN = "unclean.leader.election.enable"
DECIDING = (MIN_IN_SYNC, UNCLEAN)
"""Options of brokers that decisions depend on: each broker registers with the values that it was started with."""
LONGEST_LEADS = 3
"""The level from which on every caretaker asks replicas for their log lengths if there is a choice."""
_DEFAULTS = {MIN_IN_SYNC: "1", UNCLEAN: "false"}

IsActive = Callable[[BrokerId], bool]


def change_in_sync(command: ChangeInSync, state: Metadata, by: CommandWriter) -> list[Body] | ApiError:
    """Decide a leader's proposal; the codes are those of Kafka's AlterPartition.

    An unchanged set may still complete a reassignment.
    """
    topic = state.topics.get(command.topic_id)
    before = state.partition(command.topic_id, command.partition)
    if topic is None or before is None:
        return ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
    if command.leader_epoch != before.leader_epoch or before.leader != by.broker_id:
        return ApiError(ErrorCode.FENCED_LEADER_EPOCH)
    if command.partition_epoch != before.partition_epoch:
        return ApiError(ErrorCode.INVALID_UPDATE_VERSION)
    wanted = {replica.broker_id for replica in command.in_sync}
    if by.broker_id not in wanted or not wanted <= set(before.replicas):
        return ApiError(ErrorCode.INVALID_REQUEST, "An in-sync set holds the leader, and replicas only.")
    for replica in command.in_sync:
        broker = state.brokers.get(replica.broker_id)
        joins = replica.broker_id not in before.in_sync
        may_join = broker is not None and broker.active and replica.broker_id not in before.offline
        if broker is None or (joins and not may_join) or broker.epoch != replica.broker_epoch:
            return ApiError(ErrorCode.INELIGIBLE_REPLICA, f"Broker {replica.broker_id} may not join in this epoch.")
    in_sync = tuple(broker_id for broker_id in before.replicas if broker_id in wanted)
    after = before if in_sync == before.in_sync else with_in_sync(before, in_sync, min_in_sync(state, topic))
    after = with_reassignment_completed(after, state, topic)
    return [] if after == before else changed_entries([later(before, after)])


def elect(command: ElectLeader, state: Metadata) -> list[Body] | ApiError:
    """Decide an election that an administrator requests: of the preferred leader, or of any at the price of records."""
    topic = state.topic(command.topic)
    before = state.partition(topic.topic_id, command.partition) if topic is not None else None
    if topic is None:
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {command.topic}")
    if before is None:
        return ApiError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {command.topic}-{command.partition}"
        )
    if command.unclean:
        if before.has_leader:
            return ApiError(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
        if command.if_allowed and not unclean_allowed(state, topic):
            return ApiError(ErrorCode.ELECTION_NOT_NEEDED, "The topic waits for a complete replica.")
        if command.asked_at not in (None, before.partition_epoch):
            why = "The partition has changed since its replicas were asked how long their logs are: try again."
            return ApiError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, why)
        after = with_leader_elected(before, state, topic, unclean=True, longest=command.longest)
        if not after.has_leader:
            return ApiError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "No replica of the partition is alive.")
        return changed_entries([later(before, after)])
    preferred = before.replicas[0]
    if before.leader == preferred:
        return ApiError(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
    if not state.is_active(preferred) or preferred not in before.in_sync or preferred in before.offline:
        return ApiError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred replica is not alive and in sync.")
    return changed_entries([later(before, before._replace(leader=preferred))])


def resign(command: ResignLeadership, state: Metadata, by: CommandWriter) -> list[Body] | ApiError:
    """Let another in-sync replica lead; the sets stay, as the resigning replica lacks only sound segments."""
    before = state.partition(command.topic_id, command.partition)
    if before is None:
        return ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
    if command.leader_epoch != before.leader_epoch or before.leader != by.broker_id:
        return ApiError(ErrorCode.FENCED_LEADER_EPOCH)
    for broker_id in before.replicas:
        if broker_id != by.broker_id and broker_id in before.in_sync and state.is_active(broker_id):
            return changed_entries([later(before, before._replace(leader=broker_id))])
    return ApiError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "No other replica is alive and in sync.")


def withdraw(command: WithdrawReplica, state: Metadata, by: CommandWriter) -> list[Body] | ApiError:
    """Take a replica out of the sets, in a new leader epoch: it begins anew, and its earlier receipts do not count."""
    topic = state.topics.get(command.topic_id)
    before = state.partition(command.topic_id, command.partition)
    if topic is None or before is None:
        return ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
    if command.leader_epoch != before.leader_epoch or before.leader in (NO_LEADER, by.broker_id):
        return ApiError(ErrorCode.FENCED_LEADER_EPOCH)
    after = without_short(before, by.broker_id, min_in_sync(state, topic))
    return [] if after == before else changed_entries([later(before, after, ends_leadership=True)])


def depose(command: DeposeShortLeader, state: Metadata, by: CommandWriter) -> list[Body] | ApiError:
    """Take the leader out of the sets and let another replica lead: the reporting replica holds all committed records.

    A replica that is neither in sync nor eligible may report records that were committed once and are lost since.
    """
    topic = state.topics.get(command.topic_id)
    before = state.partition(command.topic_id, command.partition)
    if topic is None or before is None:
        return ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
    if command.leader_epoch != before.leader_epoch or before.leader in (NO_LEADER, by.broker_id):
        return ApiError(ErrorCode.FENCED_LEADER_EPOCH)
    if by.broker_id not in (*before.in_sync, *before.eligible):
        return ApiError(ErrorCode.INELIGIBLE_REPLICA, "The replica is neither in sync nor eligible to lead.")
    after = without_short(before, before.leader, min_in_sync(state, topic))
    after = with_leader_elected(after._replace(leader=NO_LEADER), state, topic)
    return changed_entries([later(before, after)])


def balance(command: BalanceLeaders, state: Metadata) -> list[Body]:
    """Put the preferred leaders back, if nothing has changed since and they are alive and in sync."""
    changed = []
    for seen in command.partitions:
        before = state.partition(seen.topic_id, seen.partition)
        if before is not None and before.partition_epoch == seen.partition_epoch and could_be_led_better(before, state):
            changed.append(later(before, before._replace(leader=before.replicas[0])))
    return changed_entries(changed)


def could_be_led_better(partition: PartitionState, state: Metadata) -> bool:
    """True if another replica leads, and the preferred one is ready to lead."""
    preferred = partition.replicas[0]
    led = partition.has_leader and partition.leader != preferred
    return led and preferred in partition.in_sync and state.is_active(preferred)


def with_reassignment_completed(partition: PartitionState, state: Metadata, topic: Topic) -> PartitionState:
    """The partition without the replicas to be removed, once the others can do without them.

    They can when every added replica is in sync, at least `min.insync.replicas` of them are (or as many as before), and
    one of them is alive to lead.
    """
    if not partition.adding and not partition.removing:
        return partition
    stay = tuple(one for one in partition.replicas if one not in partition.removing)
    in_sync = tuple(one for one in partition.in_sync if one in stay)
    enough = min(min_in_sync(state, topic), len(stay), len(partition.in_sync))
    if not in_sync or not set(partition.adding) <= set(in_sync) or len(in_sync) < enough:
        return partition
    leader_stays = partition.leader in in_sync
    if partition.has_leader and not leader_stays and not any(state.is_active(one) for one in in_sync):
        return partition
    after = of_replicas(partition, stay, min_in_sync(state, topic))._replace(adding=(), removing=())
    return after if leader_stays else with_leader_elected(after._replace(leader=NO_LEADER), state, topic)


def of_replicas(partition: PartitionState, replicas: tuple[BrokerId, ...], required: int) -> PartitionState:
    """The partition with these replicas: the sets keep those of them that they held, in the new order."""
    in_sync = tuple(one for one in replicas if one in partition.in_sync)
    complete = len(in_sync) >= min(required, len(replicas))
    return partition._replace(
        replicas=replicas,
        in_sync=in_sync,
        eligible=() if complete else tuple(one for one in replicas if one in partition.eligible),
        last_known=tuple(one for one in partition.last_known if one in replicas),
        offline=tuple(one for one in replicas if one in partition.offline),
    )


def with_offline(partition: PartitionState, broker_id: BrokerId, *, offline: bool) -> PartitionState:
    """The partition after its broker has reported the log directory of its replica."""
    brokers = {*partition.offline, broker_id} if offline else {*partition.offline} - {broker_id}
    return partition._replace(offline=tuple(one for one in partition.replicas if one in brokers))


def without_broker(
    partition: PartitionState,
    state: Metadata,
    topic: Topic,
    broker_id: BrokerId,
    is_active: IsActive,
    newcomers: tuple[BrokerId, ...] = (),
) -> PartitionState:
    """The partition after a broker has gone: the broker leaves the in-sync set, and leads no more.

    The last member of the set stays in it without leading: it holds all committed records.
    """
    after = partition
    if broker_id in partition.in_sync and len(partition.in_sync) > 1:
        rest = tuple(other for other in partition.in_sync if other != broker_id)
        after = with_in_sync(partition, rest, min_in_sync(state, topic))
    if partition.leader == broker_id or not partition.has_leader:
        waiting = after._replace(leader=NO_LEADER)
        after = with_leader_elected(waiting, state, topic, is_active=is_active, newcomers=newcomers)
    return after


def with_leader_elected(
    partition: PartitionState,
    state: Metadata,
    topic: Topic,
    *,
    is_active: IsActive | None = None,
    unclean: bool = False,
    longest: tuple[BrokerId, ...] = (),
    newcomers: tuple[BrokerId, ...] = (),
) -> PartitionState:
    """The partition with a leader, if one may lead: in sync first, then eligible, then, if allowed, any (rule A6).

    Equal replicas are taken in the order of assignment, those of `newcomers` last (FenceBroker). If the topic allows
    any, and there are several, they are asked for their log lengths before one leads: `unclean`, with the answers'
    order as `longest`.
    """
    alive = is_active or state.is_active
    candidates = [one for one in partition.replicas if one not in newcomers]
    candidates += [one for one in newcomers if one in partition.replicas]
    in_order = [one for one in candidates if alive(one) and one not in partition.offline]
    for broker_id in in_order:
        if broker_id in partition.in_sync:
            return settled(partition._replace(leader=broker_id), min_in_sync(state, topic))
    for broker_id in in_order:
        if broker_id in partition.eligible:
            alone = with_in_sync(partition, (broker_id,), min_in_sync(state, topic))
            return alone._replace(leader=broker_id, last_known=())
    choice = len(in_order) > 1 and state.metadata_version() >= LONGEST_LEADS
    if in_order and (unclean or (unclean_allowed(state, topic) and not choice)):
        first = next((one for one in (*longest, *partition.last_known) if one in in_order), in_order[0])
        return partition._replace(leader=first, in_sync=(first,), eligible=(), last_known=())
    return partition._replace(leader=NO_LEADER)


def waits_for_longest(partition: PartitionState, state: Metadata, topic: Topic) -> bool:
    """True if no replica leads, no complete one is alive, and the topic lets the longest one lead, once it is known."""
    if partition.has_leader or state.metadata_version() < LONGEST_LEADS:
        return False
    living = {one for one in partition.replicas if state.is_active(one) and one not in partition.offline}
    return (
        bool(living) and living.isdisjoint({*partition.in_sync, *partition.eligible}) and unclean_allowed(state, topic)
    )


def with_in_sync(partition: PartitionState, in_sync: tuple[BrokerId, ...], required: int) -> PartitionState:
    """The partition with another in-sync set; replicas that leave one smaller than `required` stay eligible (KIP-966).

    Nothing was committed since, as the high watermark rests below the required size (rule A3): so they hold all
    committed records.
    """
    if len(in_sync) >= min(required, len(partition.replicas)):
        return partition._replace(in_sync=in_sync, eligible=())
    keep = set(partition.in_sync) | set(partition.eligible)
    eligible = tuple(other for other in partition.replicas if other in keep and other not in in_sync)
    return partition._replace(in_sync=in_sync, eligible=eligible)


def settled(partition: PartitionState, required: int) -> PartitionState:
    """Drop eligible replicas if the in-sync set is large enough to commit: they do not hold what it commits.

    Every change of the set does so; this is for changes of the required number. While no replica leads nothing is
    committed: eligible ones stay so until one leads, as those in sync may have lost their disks.
    """
    complete = len(partition.in_sync) >= min(required, len(partition.replicas))
    return partition._replace(eligible=()) if complete and partition.has_leader else partition


def without_damaged(partition: PartitionState, broker_id: BrokerId) -> PartitionState:
    """The partition after a broker has reported its replica as damaged: it neither counts nor leads (rule A7)."""
    if not partition.in_sync and not partition.eligible:
        return partition  # the partition waits already
    return partition._replace(
        leader=NO_LEADER if partition.leader == broker_id else partition.leader,
        in_sync=_less(partition.in_sync, broker_id),
        eligible=_less(partition.eligible, broker_id),
        last_known=(broker_id,) if (*partition.in_sync, *partition.eligible) == (broker_id,) else (),
    )


def without_rolled_back(partition: PartitionState, broker_id: BrokerId, rolled_back: RolledBack) -> PartitionState:
    """The partition after a replica came back older than it was: it neither counts nor leads (rule H2).

    If it was the last one, the partition waits for the newer directory, which brings the replica back as it left, or
    for an administrator who accepts the older one by an unclean election.
    """
    if partition.awaited:
        awaited = partition.awaited in rolled_back.found and partition.last_known == (broker_id,)
        return partition._replace(in_sync=(broker_id,), last_known=()) if awaited else partition
    if broker_id not in (*partition.in_sync, *partition.eligible):
        return partition
    after = without_damaged(partition, broker_id)
    if after.in_sync or after.eligible:
        return after
    return after._replace(last_known=(broker_id,), awaited=rolled_back.expected)


def without_short(partition: PartitionState, broker_id: BrokerId, required: int) -> PartitionState:
    """Take a replica out of the sets while others hold what it may have lost; the last one is the best there is."""
    eligible = tuple(other for other in partition.eligible if other != broker_id)
    rest = tuple(other for other in partition.in_sync if other != broker_id)
    if not rest and not eligible:
        return partition
    if broker_id not in partition.in_sync:
        return partition._replace(eligible=eligible)
    left = with_in_sync(partition._replace(eligible=eligible), rest, required)
    return left._replace(eligible=tuple(other for other in left.eligible if other != broker_id))


def later(before: PartitionState, after: PartitionState, *, ends_leadership: bool = False) -> PartitionState:
    """`after` in the next partition epoch, and in the next leader epoch if the leader changed or a replica was removed.

    A removed replica may come back empty, and a late fetch of its former self must not be a receipt then.
    """
    another = ends_leadership or before.leader != after.leader or not set(before.replicas) <= set(after.replicas)
    return after._replace(
        awaited="" if after.has_leader else after.awaited,
        partition_epoch=PartitionEpoch(before.partition_epoch + 1),
        leader_epoch=LeaderEpoch(before.leader_epoch + 1) if another else before.leader_epoch,
    )


def changed_entries(partitions: Iterable[PartitionState]) -> list[Body]:
    return [PartitionsChanged(partitions=run) for run in split_partitions(list(partitions))]


def min_in_sync(state: Metadata, topic: Topic, started_with: int | None = None) -> int:
    """`min.insync.replicas` of the topic, else of all brokers, else the least that any broker was started with.

    The least, since if a leader committed at a smaller set than is assumed here, leavers would wrongly stay eligible.
    """
    if (value := _said(state, topic, MIN_IN_SYNC)) is not None:
        return int(value)
    return least_started_with(state) if started_with is None else started_with


def least_started_with(state: Metadata, broker_id: BrokerId | None = None, given: str | None = None) -> int:
    """The least `min.insync.replicas` in the files of all brokers; one may be about to register another value."""
    texts = {broker.broker_id: broker.option(MIN_IN_SYNC) for broker in state.brokers.values()}
    if broker_id is not None:
        texts[broker_id] = given
    return min((int(text or _DEFAULTS[MIN_IN_SYNC]) for text in texts.values()), default=1)


def unclean_allowed(state: Metadata, topic: Topic) -> bool:
    """The option of the topic, else of all brokers, else true if every broker was started with true."""
    value = _said(state, topic, UNCLEAN)
    texts = [value] if value is not None else _started_with(state, UNCLEAN)
    return bool(texts) and all(text.strip().lower() == "true" for text in texts)


def _said(state: Metadata, topic: Topic, name: str) -> str | None:
    text = topic.configs.get(name)
    return state.config(BROKER_RESOURCE, ALL_BROKERS).get(name) if text is None else text


def _started_with(state: Metadata, name: str) -> list[str]:
    return [broker.option(name) or _DEFAULTS[name] for broker in state.brokers.values()]


def _less(brokers: Collection[BrokerId], gone: BrokerId) -> tuple[BrokerId, ...]:
    return tuple(broker_id for broker_id in brokers if broker_id != gone)
