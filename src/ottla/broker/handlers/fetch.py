"""Fetch (key 1, versions 4 to 18): read what this reader may see, or stay in the session until there is something.

Sessions are KIP-227. Nothing is copied: reads return slices of segment files. Clients read below the high watermark,
readers of committed records below the last stable offset, followers up to the log's end: their fetches are receipts.
Consumers may read from followers too, below the high watermark that these know; a leader sends consumers to a follower
in their rack (KIP-392), and unlike Apache Kafka only to one in sync.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.throttle import Throttle, names
from ottla.broker.requests.fetch_sessions import NO_SESSION, Session, Watch
from ottla.broker.waiting import Deadline
from ottla.kernel.acls import Operation, ResourceKind
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import BrokerEpoch, BrokerId
from ottla.replication.leader import FetchRefused, ReplicaKey
from ottla.replication.read_replica import nearest
from ottla.storage.values import LogRead
from ottla.wire.connection import Part
from ottla.wire.hot import Fetch, FetchedPartition
from ottla.wire.hot_answers import FetchAnswer, refuse_fetch

if TYPE_CHECKING:
    from ottla.broker.requests.call import Call

READ_COMMITTED = 1
_ANY_REPLICA = 11
_BY_TOPIC_ID = 13
_LEADERSHIP = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


class Look:
    """The result of one look at a session: the partitions to answer, their bytes, and whether one cannot wait."""

    __slots__ = ("bytes", "follower", "found", "rack", "urgent")

    def __init__(self, follower: ReplicaKey | None, rack: str) -> None:
        self.follower = follower
        """The follower whose fetch has just arrived, which is a receipt; None at later looks."""
        self.rack = rack
        """The rack of a consumer that may be sent to a nearer replica, else empty."""
        self.found: list[tuple[Watch, FetchedPartition]] = []
        self.bytes = 0
        self.urgent = False

    def release(self) -> None:
        for _, fetched in self.found:
            for piece in fetched.slices:
                piece.release()


async def handle(call: Call, request: Fetch) -> list[Part]:
    node = call.node
    by_id = call.api_version >= _BY_TOPIC_ID
    follower: ReplicaKey | None = None
    principal = call.principal
    if request.replica_id >= 0:
        if call.peer != request.replica_id:
            if node.rights is not None:  # as Kafka answers it
                error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                return refuse_fetch(request, call.correlation_id, call.api_version, error)
            return _failed(call, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        follower = ReplicaKey(BrokerId(request.replica_id), BrokerEpoch(request.replica_epoch))
        principal = f"Broker:{request.replica_id}"
        node.replicas.spoke_ms[follower.broker] = node.clock.mono_ms()
    opened = node.fetch_sessions.open(request, principal, by_id=by_id, replica=follower is not None)
    if isinstance(opened, ErrorCode):
        return _failed(call, opened)
    session, full = opened
    epoch = session.epoch
    connection = call.connection
    if node.quotas.on_fetch and (meter := node.quotas.consumer(connection)) is not None:
        # No more than the quota can ever let through.
        request = request._replace(max_bytes=min(request.max_bytes, meter.most))
    min_bytes = min(request.min_bytes, request.max_bytes, node.options.config.fetch_max_bytes)
    timer: Deadline | None = None
    deadline_ms = 0
    try:
        while True:
            look = _look(call, session, request, follower, full=full)
            follower = None
            if look.urgent or look.bytes >= min_bytes or request.max_wait_ms <= 0 or not session.watches:
                break
            if timer is None:
                deadline_ms = node.clock.mono_ms() + request.max_wait_ms
                timer = node.deadlines.at(deadline_ms, session.wake)
                connection.on_close.append(session.wake)
            elif node.clock.mono_ms() >= deadline_ms:
                break
            look.release()
            await session.wait()
            if connection.closed:
                return []
            if session.epoch != epoch:  # another fetch, over another connection, has taken the session
                return _failed(call, ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if node.quotas.on_fetch:
            passed = node.quotas.fetched(connection, look.bytes)
            if not passed.done:
                return _held_back(call, session, look, passed.wait_ms, full=full)
            return _answer(call, session, look, full=full, throttle_ms=passed.wait_ms)
        return _answer(call, session, look, full=full)
    finally:
        if timer is not None:
            timer.cancel()
            if not connection.closed:
                connection.on_close.remove(session.wake)
        if session.id == 0:
            session.close()


def _look(call: Call, session: Session, request: Fetch, follower: ReplicaKey | None, *, full: bool) -> Look:
    """Read from the partitions that may have new records, within the budget."""
    config = call.node.options.config
    look = Look(follower, "" if session.replica or not config.replica_selector_class else request.rack)
    budget = min(request.max_bytes, config.fetch_max_bytes)
    committed = request.isolation_level == READ_COMMITTED
    try:
        _look_at_each(call, session, look, budget, full=full, committed=committed)
    except BaseException:
        look.release()
        raise
    return look


def _look_at_each(call: Call, session: Session, look: Look, budget: int, *, full: bool, committed: bool) -> None:
    node = call.node
    rights = node.rights
    if rights is not None:
        session.allowed_at(rights.version())
    for watch in list(session.dirty) if not full else list(session.watches.values()):
        refused = ErrorCode.NONE if rights is None or session.replica else _refusal(call, watch)
        partition = refused or node.partition(watch.name, watch.topic_id, watch.index)
        if isinstance(partition, ErrorCode):
            session.unwatch(watch)
            leader = _leader_of(call, watch) if partition in _LEADERSHIP else None
            fetched = _error(watch.index, partition, leader)
        else:
            session.watch(watch, partition)
            fetched = _read(call, watch, partition, budget - look.bytes, look, committed=committed)
            if session.replica and (
                fetched.high_watermark != watch.sent_high_watermark or fetched.log_start_offset != watch.sent_log_start
            ):
                look.urgent = True  # followers learn at once of a new high watermark or log start
        if full or _is_news(watch, fetched):
            look.found.append((watch, fetched))
            look.bytes += fetched.records_size
            look.urgent |= fetched.error != 0 or fetched.diverging is not None or fetched.preferred_read_replica >= 0
        elif not _has_more(watch, fetched):
            watch.dirty = False
            session.dirty.pop(watch, None)


def _refusal(call: Call, watch: Watch) -> ErrorCode:
    """NONE if the caller may read the partition now: an ACL may have changed while the fetch waited."""
    name = watch.name
    if not name:
        topic = call.node.metadata.topic_by_id(watch.topic_id)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        name = topic.name
    may = call.may(Operation.READ, ResourceKind.TOPIC, name)
    return ErrorCode.NONE if may else ErrorCode.TOPIC_AUTHORIZATION_FAILED


def _has_more(watch: Watch, fetched: FetchedPartition) -> bool:
    """True if the budget left records out. Such a watch stays in front: perhaps nothing marks it again."""
    if watch.session.replica and watch.partition is not None:
        return fetched.error == 0 and fetched.diverging is None and watch.fetch_offset < watch.partition.log.end_offset
    return fetched.error == 0 and watch.fetch_offset < fetched.high_watermark


def _is_news(watch: Watch, fetched: FetchedPartition) -> bool:
    return (
        fetched.records_size > 0
        or fetched.error != 0
        or watch.sent_error
        or fetched.high_watermark != watch.sent_high_watermark
        or fetched.log_start_offset != watch.sent_log_start
        or fetched.diverging is not None
        or fetched.preferred_read_replica >= 0
    )


def _error(index: int, error: ErrorCode, leader: tuple[int, int] | None = None) -> FetchedPartition:
    return FetchedPartition(index, int(error), leader=leader)


def _read(
    call: Call, watch: Watch, partition: Partition, budget: int, look: Look, *, committed: bool
) -> FetchedPartition:
    """One partition's part of the answer."""
    index, first = watch.index, look.bytes == 0
    refused_as = ErrorCode.NONE if partition.leader is not None else _as_follower(call, watch, partition)
    if refused_as or not call.node.may_lead():
        return _error(index, refused_as or ErrorCode.NOT_LEADER_OR_FOLLOWER, _leader_of(call, watch))
    if watch.current_leader_epoch not in (-1, partition.leader_epoch):
        return _in_another_epoch(watch, partition)
    log = partition.log
    if look.follower is not None and (refused := _receipt(call, look.follower, watch, partition)) is not None:
        return refused
    high_watermark, stable = log.high_watermark, log.last_stable_offset
    if watch.last_fetched_epoch >= 0 and (told := _off_our_history(watch, partition)) is not None:
        return told
    if look.rack and (nearer := _nearer(call, look.rack, watch, partition)) is not None:
        start = log.log_start_offset
        return FetchedPartition(index, 0, high_watermark, stable, start, preferred_read_replica=nearer)
    limit = log.end_offset if watch.session.replica else stable if committed else high_watermark
    offset, most = watch.fetch_offset, max(0, min(watch.max_bytes, budget))
    exceeded, throttle = False, _throttle(call, watch, partition) if watch.session.replica else None
    if throttle is not None:
        most, exceeded = throttle.piece_bytes(most), throttle.exceeded()
        if exceeded:
            throttle.when_free(watch.session.wake)
    if offset == limit or (
        log.log_start_offset <= offset <= log.end_offset and (offset > limit or exceeded or (budget <= 0 and not first))
    ):
        aborted: list[tuple[int, int]] | None = [] if committed else None
        return FetchedPartition(index, 0, high_watermark, stable, log.log_start_offset, aborted)
    try:
        read = log.read(
            offset,
            most,
            limit_offset=limit,
            at_least_one=first,
            with_aborted=committed,
        )
    except OSError as error:
        call.node.disk_failed(error)
        return _error(index, ErrorCode.KAFKA_STORAGE_ERROR)
    if read.__class__ is not LogRead:
        return _refused(call, watch, partition, read)  # type: ignore[arg-type]
    _note_served(call, partition, offset, read.bytes)
    if throttle is not None:
        throttle.took(read.bytes)
    return FetchedPartition(
        index,
        0,
        high_watermark,
        stable,
        log.log_start_offset,
        read.aborted,
        slices=read.slices,
        records_size=read.bytes,
    )


def _in_another_epoch(watch: Watch, partition: Partition) -> FetchedPartition:
    if watch.current_leader_epoch < partition.leader_epoch:
        return _error(watch.index, ErrorCode.FENCED_LEADER_EPOCH, (partition.leader_id, partition.leader_epoch))
    return _error(watch.index, ErrorCode.UNKNOWN_LEADER_EPOCH)


def _as_follower(call: Call, watch: Watch, partition: Partition) -> ErrorCode:
    """NONE if a consumer may read committed records from this follower.

    Committed records stay committed, except with unclean elections or without syncs: then our leader must have
    answered first. A follower that is cut off from its leader sends consumers back to it; Apache Kafka's would let
    them wait in vain.
    """
    follower, node = partition.follower, call.node
    if follower is None or watch.session.replica or call.api_version < _ANY_REPLICA:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if follower.failed is not None or partition.log.refusing:
        return ErrorCode.KAFKA_STORAGE_ERROR
    silent_ms = node.replicas.fetches.silent_ms(follower.leader)
    if silent_ms > node.config.replica_lag_time_max_ms or not (follower.agreed or follower.keeps_committed):
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return ErrorCode.NONE


def _nearer(call: Call, rack: str, watch: Watch, partition: Partition) -> BrokerId | None:
    """A live replica in the consumer's rack that it can reach and that holds the requested offset, if we lead."""
    leader = partition.leader
    if leader is None:
        return None
    brokers, listener = call.node.metadata.brokers, call.connection.listener
    found = [brokers[broker] for broker in leader.replicas if broker in brokers]
    racks = {each.broker_id: each.rack for each in found if each.active and each.listener(listener) is not None}
    return nearest(leader, racks, rack, watch.fetch_offset)


def _refused(call: Call, watch: Watch, partition: Partition, error: ErrorCode) -> FetchedPartition:
    """The answer to a refused read.

    Damage is KAFKA_STORAGE_ERROR, and clients ask again; if no other replica can ever lead, they are told that the
    records are lost. A read that met unknown damage has the log checked.

    Only the leader answers that an offset is out of range: a follower may lack records, and consumers would start
    over elsewhere.
    """
    partition.traffic.failed_fetches += 1
    leader, log = partition.leader, partition.log
    if error == ErrorCode.KAFKA_STORAGE_ERROR:
        partition.suspect(watch.fetch_offset)
        if leader is not None and len(leader.replicas) == 1:
            error = ErrorCode.CORRUPT_MESSAGE
    elif error == ErrorCode.OFFSET_OUT_OF_RANGE and leader is None:
        return _error(watch.index, ErrorCode.NOT_LEADER_OR_FOLLOWER, _leader_of(call, watch))
    refused = _error(watch.index, error)
    if error == ErrorCode.OFFSET_OUT_OF_RANGE and call.peer is not None:  # a repair goes on at our start
        refused = refused._replace(log_start_offset=log.log_start_offset)
    return refused


def _note_served(call: Call, partition: Partition, offset: int, count: int) -> None:
    """Note a read by another broker. Brokers check records: one that repeats a fetch has refused the answer."""
    if offset < partition.log.active.base_offset and count and call.peer is not None:
        call.node.scrubber.served(partition, call.peer, offset)


def _off_our_history(watch: Watch, partition: Partition) -> FetchedPartition | None:
    """The answer to a reader whose last record is not in our log. A reader ahead of a follower has not diverged."""
    log = partition.log
    ending = log.epoch_end(watch.last_fetched_epoch)
    ahead = partition.leader is None and watch.fetch_offset > log.end_offset
    if ahead or ending is None or watch.fetch_offset < log.log_start_offset:
        return _error(watch.index, ErrorCode.OFFSET_OUT_OF_RANGE)
    if ending.leader_epoch != watch.last_fetched_epoch or ending.end_offset < watch.fetch_offset:
        diverging, stable = (ending.leader_epoch, ending.end_offset), log.last_stable_offset
        return FetchedPartition(watch.index, 0, log.high_watermark, stable, log.log_start_offset, diverging=diverging)
    return None


def _throttle(call: Call, watch: Watch, partition: Partition) -> Throttle | None:
    """The throttle of a read: for a follower that is out of sync, if the replica here is throttled."""
    throttled, leader = partition.config.leader_replication_throttled_replicas, partition.leader
    if not throttled or leader is None or call.peer in leader.committed_in_sync:
        return None
    return call.node.leader_throttle if names(throttled, partition.index, call.node.broker) else None


def _receipt(call: Call, follower: ReplicaKey, watch: Watch, partition: Partition) -> FetchedPartition | None:
    """Take the fetch as a receipt; return None if it is one, else the answer that refuses it (rule A1)."""
    log = partition.log
    told = partition.receipt(
        follower,
        leader_epoch=watch.current_leader_epoch,
        last_epoch=watch.last_fetched_epoch,
        synced_through=watch.fetch_offset,
        log_start=watch.log_start,
    )
    leader = partition.leader
    if told is None and leader is not None and follower.broker not in leader.committed_in_sync:
        call.node.replicas.in_sync.look(partition)
    if told is None and watch.fetch_offset < log.log_start_offset:
        told = FetchRefused(
            ErrorCode.OFFSET_OUT_OF_RANGE
        )  # the follower has to begin at our start, which the answer names
    if told is None:
        return None
    error, diverging = (int(told.error), None) if isinstance(told, FetchRefused) else (0, (told.epoch, told.end_offset))
    return FetchedPartition(
        watch.index,
        error,
        high_watermark=log.high_watermark,
        log_start_offset=log.log_start_offset,
        diverging=diverging,
    )


def _leader_of(call: Call, watch: Watch) -> tuple[int, int] | None:
    hint = call.node.endpoints.leader_hint(watch.name, watch.topic_id, watch.index, call.connection)
    return None if hint is None else (hint.leader, hint.epoch)


def _held_back(call: Call, session: Session, look: Look, throttle_ms: int, *, full: bool) -> list[Part]:
    """An empty answer to a client over its quota; it asks for the same again (KIP-219).

    A session that would begin with it does not, as in Kafka: the client has not seen its partitions.
    """
    look.release()
    if full and session.id != NO_SESSION:
        call.node.fetch_sessions.drop(session)
    return FetchAnswer(
        call.correlation_id,
        call.api_version,
        throttle_ms=throttle_ms,
        error=0,
        session_id=NO_SESSION if full else session.id,
        topics=0,
    ).finish([])


def _answer(call: Call, session: Session, look: Look, *, full: bool, throttle_ms: int = 0) -> list[Part]:
    """Note what the reader is told, and build the answer, topic by topic."""
    groups: list[tuple[Watch, list[FetchedPartition]]] = []
    endpoints = {}
    for watch, fetched in look.found:
        watch.sent_high_watermark = fetched.high_watermark
        watch.sent_log_start = fetched.log_start_offset
        watch.sent_error = fetched.error != 0
        if fetched.records_size or fetched.error:
            if watch.partition is not None:
                watch.partition.traffic.bytes_out += fetched.records_size
            session.dirty.pop(watch, None)
            session.dirty[watch] = None
            watch.dirty = True
        elif watch.dirty and not _has_more(watch, fetched):
            watch.dirty = False
            session.dirty.pop(watch, None)
        if watch.partition is not None:
            watch.partition.traffic.fetches += 1
        if fetched.error in _LEADERSHIP:
            hint = call.node.endpoints.leader_hint(watch.name, watch.topic_id, watch.index, call.connection)
            if hint is not None and hint.endpoint is not None:
                endpoints[hint.leader] = hint.endpoint
        if groups and groups[-1][0].name == watch.name and groups[-1][0].topic_id == watch.topic_id:
            groups[-1][1].append(fetched)
        else:
            groups.append((watch, [fetched]))
    answer = FetchAnswer(
        call.correlation_id,
        call.api_version,
        throttle_ms=throttle_ms,
        error=0,
        session_id=session.id,
        topics=len(groups),
    )
    for watch, partitions in groups:
        answer.topic(watch.name, watch.topic_id, partitions)
    return answer.finish(list(endpoints.values()))


def _failed(call: Call, error: ErrorCode) -> list[Part]:
    """An error for the whole fetch; before version 7 there is no field for it, and the answer is empty."""
    return FetchAnswer(
        call.correlation_id, call.api_version, throttle_ms=0, error=int(error), session_id=0, topics=0
    ).finish([])
