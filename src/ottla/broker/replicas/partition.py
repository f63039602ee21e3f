"""A partition on this broker: a log meets its role.

Called by handlers; uses the log (storage/log.py), the machine that decides what is committed (replication/leader.py)
and the waits for commits (waiting.py). Everything happens on the broker's loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.broker.replicas.admission import Admission, RefusedBatch
from ottla.broker.replicas.log_starts import LogStarts
from ottla.broker.replicas.readers import Readers
from ottla.broker.waiting import CommitWaits
from ottla.cluster.protection import INTERNAL_TOPICS
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import BrokerEpoch, BrokerId, EndOffset, LeaderEpoch, PartitionEpoch, SyncedOffset
from ottla.kernel.story import Slot
from ottla.metadata.partition_state import NEVER_UNCLEAN, PartitionState
from ottla.metrics.metric import Traffic
from ottla.replication.follower import FollowerReplica
from ottla.replication.in_sync import InSyncKeeper, Proposal
from ottla.replication.leader import Diverged, FetchRefused, LeaderReplica, ReplicaKey
from ottla.storage.producers.producers import Guard
from ottla.storage.values import Appended, Origin

if TYPE_CHECKING:
    from ottla.broker.replicas.surroundings import Surroundings
    from ottla.config.topic import TopicConfig
    from ottla.records.batch import Batch
    from ottla.storage.log import Log

ALL_IN_SYNC = -1
ANY_EPOCH = -1
"""The leader epoch in the request of a client that knows none."""
NEVER_CHANGED = PartitionEpoch(-1)
SETTLE_MS = 500
"""The longest wait of a request that needs what the log holds to be committed."""


class Partition:
    """One replica. `leader` is the machine while this broker leads, `follower` while it follows; else None."""

    __slots__ = (
        "_admission",
        "_agreed_epoch",
        "_around",
        "_on_disk",
        "_suspect",
        "adding",
        "config",
        "follower",
        "index",
        "is_internal",
        "keeper",
        "leader",
        "leader_epoch",
        "leader_id",
        "log",
        "partition_epoch",
        "readers",
        "starts",
        "topic",
        "topic_id",
        "traffic",
        "waits",
    )

    def __init__(
        self,
        topic: str,
        index: int,
        topic_id: bytes,
        log: Log,
        config: TopicConfig,
        traffic: Traffic,
        around: Surroundings,
        suspect: Callable[[Partition, int], None],
    ) -> None:
        """`suspect` is called if the log may be damaged at an offset, and has it checked soon."""
        self.topic = topic
        self.index = index
        self.is_internal = topic in INTERNAL_TOPICS
        self.topic_id = topic_id
        self.log = log
        self.config = config
        self._admission = Admission(config)
        self.traffic = traffic
        self.leader: LeaderReplica | None = None
        self.follower: FollowerReplica | None = None
        self.keeper: InSyncKeeper | None = None
        """Proposes in-sync sets while this broker leads."""
        self._on_disk: Callable[[], None] | None = None
        self.leader_id = BrokerId(-1)
        self.leader_epoch = LeaderEpoch(-1)
        self.partition_epoch = -1
        self.adding: tuple[BrokerId, ...] = ()
        """Replicas that a reassignment adds, by the metadata that was carried out here last."""
        self._agreed_epoch = -1
        """The last leader epoch whose history is known to contain our log."""
        self.waits = CommitWaits(around.deadlines, self.leader_epoch)
        self.starts = LogStarts(around, self.leader_epoch)
        self.readers = Readers()
        self._around = around
        self._suspect = suspect

    # --- roles ---

    def lead(
        self,
        epoch: LeaderEpoch,
        *,
        replicas: tuple[BrokerId, ...],
        in_sync: frozenset[BrokerId],
        partition_epoch: PartitionEpoch = NEVER_CHANGED,
        registered: dict[BrokerId, BrokerEpoch],
        arriving: int = 0,
    ) -> None:
        """Lead in a new epoch: its start is on disk before anything is served (rule B2)."""
        self.resign(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        around, log = self._around, self.log
        log.begin_epoch(epoch)
        self.leader_epoch = self._agreed_epoch = epoch
        self.leader_id = around.broker
        self.waits = CommitWaits(around.deadlines, epoch)
        self.starts.begin(epoch)
        self.leader = LeaderReplica(
            me=around.broker,
            epoch=epoch,
            epoch_start=EndOffset(log.end_offset),
            epoch_ends=log.epoch_end,
            replicas=replicas,
            partition_epoch=partition_epoch,
            in_sync=in_sync,
            arriving=arriving,
            min_in_sync=self.config.min_insync_replicas,
            high_watermark=EndOffset(log.high_watermark),
            synced_through=SyncedOffset(log.synced_offset),
            log_start=log.log_start_offset,
            registered=registered,
            now_ms=around.clock.mono_ms(),
        )
        self.keeper = InSyncKeeper(self.leader)
        self._take_synced()
        self.mark()

    def in_sync_changed(self, state: PartitionState) -> None:
        """Take a new in-sync set from an applied entry (rule A4)."""
        if self.leader is not None:
            epoch, in_sync, now_ms = state.partition_epoch, frozenset(state.in_sync), self._around.clock.mono_ms()
            self._advance(
                self.leader.on_applied(epoch, in_sync, state.replicas, arriving=state.arriving, now_ms=now_ms)
            )
            self.starts.moved(self.leader)

    def proposal_refused(self, keeper: InSyncKeeper, proposal: Proposal, *, rank: int) -> None:
        """Drop a proposal, perhaps of an earlier leadership, that is never appended."""
        told = keeper.on_refused(proposal, rank=rank, now_ms=self._around.clock.mono_ms())
        if keeper is self.keeper:
            self._advance(told)
            self.starts.moved(self.leader)

    def settled_in(self, state: PartitionState) -> None:
        """Note that this state of the metadata is fully carried out here."""
        self.partition_epoch, self.adding = state.partition_epoch, state.adding

    def resign(self, error: ErrorCode) -> None:
        """Stop leading: requests that wait in this epoch are answered before anything else happens (rule A9)."""
        if self.follower is not None and self.follower.agreed:
            self._agreed_epoch = self.follower.epoch
        self.leader = self.follower = self.keeper = None
        self.log.producers.forget_guards()
        self.leader_id = BrokerId(-1)
        self.waits.fail(error)
        self.starts.fail(error)
        self.mark()

    def lapsed(self) -> None:
        """Send waiting clients to the next leader, as the lease has run out; it may be this broker again."""
        self.waits.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.starts.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.mark()

    def follow(
        self, leader: BrokerId, epoch: LeaderEpoch, unclean_epoch: LeaderEpoch = NEVER_UNCLEAN, committed: int = 0
    ) -> None:
        """Follow a leader: requests that wait in an epoch of ours are answered first (rule A9).

        An epoch of ours without records is removed: the leader's history may differ from there on. `unclean_epoch`
        began with a leader that may lack committed records: if our log does not reach it, records committed here may
        be committed no longer. `committed`: the high watermark in our checkpoint.
        """
        self.resign(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        log = self.log
        log.epochs.cut_end(log.end_offset)
        self.leader_id, self.leader_epoch = leader, epoch
        self.follower = FollowerReplica(
            leader=leader,
            epoch=epoch,
            high_watermark=EndOffset(log.high_watermark),
            epoch_ends=log.epoch_end,
            lasting=not (self.config.write_caching or self.config.unclean_leader_election_enable),
            overruled=unclean_epoch > max(log.epochs.latest, self._agreed_epoch),
            committed_before=EndOffset(committed),
        )
        self._take_synced()

    def registered_changed(self, registered: dict[BrokerId, BrokerEpoch]) -> None:
        """Note that brokers have registered again: they may have lost what they held before (rule A8)."""
        if self.leader is not None and self.leader.registered != registered:
            self.leader.on_registered(registered, now_ms=self._around.clock.mono_ms())

    def receipt(
        self, replica: ReplicaKey, *, leader_epoch: int, last_epoch: int, synced_through: int, log_start: int
    ) -> Diverged | FetchRefused | None:
        """Take a follower's fetch: it has all records below `synced_through` on disk, if they are our history (A1)."""
        assert self.leader is not None
        told = self.leader.on_fetch(
            replica,
            leader_epoch=LeaderEpoch(leader_epoch),
            last_epoch=last_epoch,
            synced_through=SyncedOffset(synced_through),
            end_offset=EndOffset(self.log.end_offset),
            now_ms=self._around.clock.mono_ms(),
            log_start=log_start,
        )
        if isinstance(told, Diverged | FetchRefused):
            return told
        self._advance(told)
        self.starts.moved(self.leader)
        return None

    def go_on_in(self, log: Log) -> None:
        """Continue in another log with the same records, all on disk: the replica has moved to another directory."""
        self.log = log
        if self.leader is not None:
            self.leader.go_on_with(log.epoch_end)
        if self.follower is not None:
            self.follower.go_on_with(log.epoch_end)
        log.listen(on_synced=self.on_synced)
        self._take_synced()
        self.mark()

    def epoch_error(self, current_leader_epoch: int) -> ErrorCode:
        """NONE if we lead in the epoch that a client knows, or `ANY_EPOCH` (KIP-320)."""
        if self.leader is None or not self._around.may_lead():
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if current_leader_epoch not in (ANY_EPOCH, self.leader_epoch):
            older = current_leader_epoch < self.leader_epoch
            return ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE

    # --- where the log starts ---

    def leader_starts(self, offset: int) -> bool:
        """Delete records below the leader's log start, so that they never come back; True if our start moved."""
        log = self.log
        start = min(offset, log.high_watermark)
        if start <= log.log_start_offset:
            return False
        log.delete_records_before(start)
        self.mark()
        return True

    def set_config(self, config: TopicConfig) -> None:
        self.config = config
        self._admission = Admission(config)
        self.log.update_config(config)
        self._take_synced()
        if self.leader is not None:
            self._advance(self.leader.on_min_in_sync(config.min_insync_replicas))

    # --- writing ---

    def produce(self, records: memoryview | None, *, acks: int, wall_ms: int) -> Appended | ErrorCode | RefusedBatch:
        """Append a producer's batch; refuses before it writes. `committed` waits for the rest of `acks=all`."""
        leader = self.leader
        if leader is None or not self._around.may_lead():
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if acks == ALL_IN_SYNC and not leader.enough_in_sync:
            return ErrorCode.NOT_ENOUGH_REPLICAS
        batch = self._admission.admit(records, wall_ms)
        if batch.__class__ is RefusedBatch or batch.__class__ is ErrorCode:
            return batch
        return self.append(batch, Origin.CLIENT, wall_ms, awaited=acks == ALL_IN_SYNC)  # type: ignore[arg-type]

    def produce_in_transaction(
        self, records: memoryview | None, guard: Guard | None, *, acks: int, wall_ms: int
    ) -> Appended | ErrorCode | RefusedBatch:
        """Like `produce`, for a request with a transactional id; with the batch's guard, if it needs one."""
        leader = self.leader
        if leader is None or not self._around.may_lead():
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if acks == ALL_IN_SYNC and not leader.enough_in_sync:
            return ErrorCode.NOT_ENOUGH_REPLICAS
        batch = self._admission.admit_transactional(records, wall_ms)
        if isinstance(batch, RefusedBatch | ErrorCode):
            return batch
        return self.append(batch, Origin.CLIENT, wall_ms, guard=guard, awaited=acks == ALL_IN_SYNC)

    def has(self, batch: Batch) -> bool:
        """True if a producer's batch is in the log already, so that this is a repeat."""
        return self.log.producers.repeats(batch)

    def append(
        self,
        batch: Batch,
        origin: Origin,
        wall_ms: int,
        *,
        guard: object | None = None,
        bumps: bool = False,
        awaited: bool = True,
    ) -> Appended | ErrorCode:
        """Append a checked batch in this epoch and submit its sync. `Log.append` describes the rest.

        `awaited` says whether the caller waits for the commit; where nobody does, the sync may begin a little later.
        """
        log = self.log
        try:
            appended = log.append(
                batch, leader_epoch=self.leader_epoch, wall_ms=wall_ms, origin=origin, guard=guard, bumps=bumps
            )
        except OSError as error:
            self._around.disk_failed(error)
            return ErrorCode.KAFKA_STORAGE_ERROR
        if appended.__class__ is not Appended or appended.duplicate:
            return appended
        traffic = self.traffic
        traffic.messages_in += batch.records_count
        traffic.bytes_in += batch.size
        for watch in self.readers.replicas:
            watch.mark()
        if self.config.write_caching:
            self.on_synced(log.end_offset)
            if log.flush_due(wall_ms):
                self._around.syncer.submit(log)
        elif awaited or self._is_awaited():
            self._around.syncer.submit(log)
        else:
            self._around.syncer.submit_later(log)
        return appended

    def _is_awaited(self) -> bool:
        """True if readers, waiting requests or other replicas depend on how far the log is on disk."""
        leader = self.leader
        return self.readers.any or self.waits.any or leader is None or len(leader.replicas) > 1

    def hurry(self) -> None:
        """Let a sync that was put off begin: somebody waits for it from now on."""
        self._around.syncer.hurry(self.log)

    def guard(self, producer_id: int, epoch: int, sequence: int, *, bumps: bool) -> Guard | ErrorCode | None:
        """A guard for the first batch of a transaction that its coordinator has confirmed; None if it is open already.

        `sequence` is -1 for the offsets of a group, `bumps` whether each transaction has an epoch of its own.
        """
        if self.leader is None or not self._around.may_lead():
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        now_ms = self._around.clock.wall_ms()
        return self.log.producers.guard(producer_id, epoch, sequence, bumps=bumps, now_ms=now_ms)

    def committed(self, through: int, timeout_ms: int) -> Slot[ErrorCode] | ErrorCode:
        """NONE if everything below `through` is committed already, else the wait for it (errors 6, 7, 20)."""
        leader = self.leader
        if leader is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if leader.high_watermark >= through:
            return self._verdict(leader)
        self.hurry()
        return self.waits.add(EndOffset(through), self._around.clock.mono_ms() + timeout_ms)

    def settled(self, through: int, timeout_ms: int) -> Slot[ErrorCode] | None:
        """The wait until the log's records below `through` are committed; None if there is nothing to wait for.

        With too few in-sync replicas nothing is committed, and a wait would only time out.
        """
        leader = self.leader
        through = min(through, self.log.end_offset)
        if leader is None or leader.high_watermark >= through or not leader.enough_in_sync:
            return None
        self.hurry()
        return self.waits.add(EndOffset(through), self._around.clock.mono_ms() + timeout_ms)

    # --- what happens to the log ---

    def on_synced(self, offset: int) -> None:
        """Note that the log is synced up to `offset`."""
        leader = self.leader
        if leader is not None:
            self._advance(leader.on_own_sync(SyncedOffset(offset), now_ms=self._around.clock.mono_ms()))
        elif self.follower is not None:
            self._committed_here(self.follower.on_synced(SyncedOffset(offset)))
            if self._on_disk is not None and offset >= self.log.end_offset:
                self._on_disk()

    def leader_said(self, high_watermark: int) -> None:
        """Take the leader's high watermark, as far as we hold it on disk ourselves."""
        if self.follower is not None:
            synced = SyncedOffset(self.log.synced_offset)
            self._committed_here(self.follower.on_high_watermark(high_watermark, synced_through=synced))

    def _committed_here(self, high_watermark: EndOffset | None) -> None:
        """Take a leader's high watermark.

        It may lie below ours: another copy of our log knew more, which stays committed, or the leader is unclean and
        the disk had no room to cut our log.
        """
        follower, held = self.follower, self.log
        if high_watermark is None or follower is None:
            return
        if high_watermark >= held.high_watermark:
            held.set_high_watermark(high_watermark)
        elif not follower.keeps_committed:
            held.take_back_committed(max(high_watermark, held.log_start_offset))
        self.mark()

    def _take_synced(self) -> None:
        """Take the synced offset again, as write.caching may have changed what counts as on disk."""
        log = self.log
        self.on_synced(log.synced_offset)
        if log.synced_offset < log.end_offset:
            self._around.syncer.submit(log)

    def _advance(self, high_watermark: EndOffset | None) -> None:
        if high_watermark is None:
            return
        leader = self.leader
        assert leader is not None
        self.log.set_high_watermark(high_watermark)
        self.waits.committed(high_watermark, self._verdict(leader))
        self.readers.committed(high_watermark)

    def _verdict(self, leader: LeaderReplica) -> ErrorCode:
        """The answer to waiting requests: the lease is checked when the answer leaves (rule A12)."""
        if not self._around.may_lead():
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.NONE if leader.enough_in_sync else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    def suspect(self, offset: int) -> None:
        """Have a batch checked that seems damaged, unless its damage is known already."""
        if self.log.damaged_at is None and not self.log.damage.covers(offset):
            self._suspect(self, offset)

    # --- listeners ---

    def tell_on_disk(self, listener: Callable[[], None] | None) -> None:
        """Call `listener` once the whole log is on disk: this follower's next fetch waits for the sync."""
        self._on_disk = listener

    def mark(self) -> None:
        """Mark the watches: something that readers see has changed."""
        self.readers.mark()
