"""Carries out what damaged replicas want: leadership is handed over, and what is damaged is fetched from the leader.

Called by scrubber.py with its findings, and by reconcile.py when the metadata has changed; replication/damage.py
decides the steps. One repair runs at a time, no faster than the scrub.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.cluster.commands import ResignLeadership, WithdrawReplica
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import LeaderEpoch, TopicId
from ottla.kernel.story import Slot, run_story
from ottla.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from ottla.replication.damage import DamagedReplica, Keep, Refetch, Resign, Withdraw
from ottla.storage.directory.refetch import Contradiction, Refetched
from ottla.storage.log import FULL_DISK

if TYPE_CHECKING:
    from ottla.broker.control.peers import Peers
    from ottla.broker.environment import Environment
    from ottla.broker.metadata_log.command_queue import Outcome
    from ottla.broker.replicas.compactor import Compactor
    from ottla.broker.replicas.partition import Partition
    from ottla.broker.replicas.reconcile import Replicas
    from ottla.storage.log import Log

log = logging.getLogger("ottla.repairs")
PURPOSE = "repair"
VERSION = 18
LOOK_EVERY_MS = 1000
_PIECE_BYTES = 1 << 20
_ANSWER_IN_MS = 30_000
Key = tuple[bytes, int]


class _PutOff(Exception):
    """The repair cannot be done now; the text is the reason."""


class Repairs:
    """The damaged replicas of this broker."""

    def __init__(self, around: Environment, replicas: Replicas, compactor: Compactor, peers: Peers) -> None:
        self._around = around
        self._replicas = replicas
        self._compactor = compactor
        self._peers = peers
        self._damaged: dict[Key, DamagedReplica] = {}
        self._kept: set[Key] = set()
        """Replicas for which a missing source was logged already."""
        self._busy = self._watching = self._stopped = False
        self.repaired_segments = 0

    def stop(self) -> None:
        self._stopped = True

    def damaged_segments(self) -> int:
        """The number of known damaged segments."""
        return sum(len(partition.log.damage.bases) for partition in self._replicas.by_id.values())

    def look(self, partition: Partition) -> None:
        """Look at a replica after damage was found, or its leader, in-sync set or the live brokers changed."""
        key = (partition.topic_id, partition.index)
        held = partition.log
        self._forget_what_is_gone(held)
        state = self._around.metadata.partition(partition.topic_id, partition.index)
        stopped = held.damaged_at is not None
        if not (held.damage or stopped) or state is None or self._stopped:
            self._damaged.pop(key, None)
            self._kept.discard(key)
            return
        if key not in self._damaged:
            self._damaged[key] = DamagedReplica(self._around.broker)
        self._watch()
        replica = self._damaged[key]
        todo = replica.look(
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            in_sync=state.in_sync,
            active=[broker.broker_id for broker in self._around.metadata.active_brokers()],
            stopped=stopped,
            now_ms=self._around.clock.mono_ms(),
        )
        if isinstance(todo, Keep):
            self._say_kept(key, partition)
        elif isinstance(todo, Resign):
            self._resign(replica, partition, todo.leader_epoch)
        elif isinstance(todo, Withdraw):
            self._withdraw(partition, todo.leader_epoch)
        elif isinstance(todo, Refetch) and not self._busy:
            self._busy = True
            story = run_story(self._repair(replica, partition, todo))
            story.when_full(lambda: self._ended(story))

    def _forget_what_is_gone(self, held: Log) -> None:
        """Drop notes of damage in removed segments; without room to write, the next start drops them."""
        try:
            held.damage.keep(held.bases[:-1])
        except OSError as error:
            if error.errno not in FULL_DISK:
                self._around.disk_failed(error)

    def _say_kept(self, key: Key, partition: Partition) -> None:
        if key not in self._kept:
            self._kept.add(key)
            log.error(
                "%s-%d is damaged, and no other replica is in sync: what is damaged stays refused, nothing is deleted",
                partition.topic, partition.index,
            )  # fmt: skip

    def _watch(self) -> None:
        if not self._watching:
            self._watching = True
            self._around.deadlines.after(LOOK_EVERY_MS, self._look_again)

    def _look_again(self) -> None:
        self._watching = False
        self._look_at_all()

    def _look_at_all(self) -> None:
        for key in list(self._damaged):
            partition = self._replicas.by_id.get(key)
            if partition is None:
                self._damaged.pop(key, None)
            else:
                self.look(partition)

    def _resign(self, replica: DamagedReplica, partition: Partition, epoch: LeaderEpoch) -> None:
        log.warning("%s-%d is damaged: another replica is asked to lead", partition.topic, partition.index)
        command = ResignLeadership(TopicId(partition.topic_id), partition.index, epoch)
        slot = self._around.follow.submit(command)

        def ended(outcome: Outcome) -> None:
            if isinstance(outcome, ApiError):
                replica.on_resign_refused()

        slot.when_full(lambda: ended(slot.result()))

    def _withdraw(self, partition: Partition, epoch: LeaderEpoch) -> None:
        """Leave the in-sync and eligible sets; reconcile.py then begins with an empty log.

        A refused command is repeated.
        """
        log.warning(
            "%s-%d is damaged where it would have to be cut or extended: it leaves the in-sync set, to be fetched anew",
            partition.topic,
            partition.index,
        )
        self._around.follow.submit(WithdrawReplica(TopicId(partition.topic_id), partition.index, epoch))

    # --- fetching anew ---

    async def _repair(self, replica: DamagedReplica, partition: Partition, todo: Refetch) -> None:
        """Fetch all segments to replace before replacing any."""
        built: list[Refetched] = []
        held = partition.log
        try:
            await self._fetch_all(partition, todo, built)
            self._check(partition, todo)
            if not self._is_here(partition, held):
                raise _PutOff("it has moved to another directory")
            self._install(partition, built)
        except (_PutOff, Contradiction) as fault:
            log.warning("%s-%d is not repaired yet: %s", partition.topic, partition.index, fault)
            replica.on_refetch_failed(self._around.clock.mono_ms())
        except OSError as error:
            if self._is_here(partition, held) and (error.errno not in FULL_DISK or held.refusing):
                raise  # in the middle of a swap; a deleted log has lost its files too
            log.warning("%s-%d is not repaired yet: %s", partition.topic, partition.index, error)
            replica.on_refetch_failed(self._around.clock.mono_ms())
        finally:
            for one in built:
                one.discard()

    async def _fetch_all(self, partition: Partition, todo: Refetch, built: list[Refetched]) -> None:
        """Fetch the segments; of a compacted log all closed ones, as the leader may have compacted away tombstones of
        records that are still in ours."""
        held = partition.log
        sparse = self._is_compacted(partition)
        for segment in held.segments[:-1]:
            if sparse or held.damage.of(segment.base_offset):
                self._check(partition, todo)
                one = Refetched(held, segment, sparse=sparse)
                built.append(one)
                while one.wanted is not None:
                    await self._fetch(partition, todo, one)
                self._check(partition, todo)
                self._around.syncer.submit(one)
                await one.synced()

    def _is_compacted(self, partition: Partition) -> bool:
        cleaned = self._replicas.directories.cleaned_to(partition)
        return "compact" in partition.config.cleanup_policy or cleaned is not None

    def _is_here(self, partition: Partition, held: Log) -> bool:
        """True if the log still belongs to a replica here: it may be deleted or moved at any time."""
        return self._replicas.by_id.get((partition.topic_id, partition.index)) is partition and partition.log is held

    def _check(self, partition: Partition, todo: Refetch) -> None:
        """Raise unless the replica is still here and follows that leader in that epoch."""
        if not self._is_here(partition, partition.log) or partition.log.refusing or self._stopped:
            raise _PutOff("it is not here any more")
        if partition.follower is None or partition.leader_epoch != todo.leader_epoch:
            raise _PutOff("it has another leader now")

    async def _fetch(self, partition: Partition, todo: Refetch, one: Refetched) -> None:
        """Fetch one segment as a consumer does: only committed records."""
        assert one.wanted is not None
        part = await self._ask(partition, todo, one.wanted)
        self._check(partition, todo)
        if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and part.log_start_offset > one.wanted:
            self._start_with_leader(partition, part.log_start_offset)
            one.skip_to(part.log_start_offset)
            return
        if part.error_code != ErrorCode.NONE:
            raise _PutOff(f"leader {todo.leader} answers with error {part.error_code} at offset {one.wanted}")
        if not part.records:
            raise _PutOff(f"leader {todo.leader} has committed nothing yet at offset {one.wanted}")
        taken = one.take(part.records)
        await self._pause(int(1000 * taken / self._around.config.scrub_max_bytes_per_second))

    def _start_with_leader(self, partition: Partition, start: int) -> None:
        """Raise our log start to the leader's before records below it are skipped.

        Nothing but a fetch would raise it otherwise: if we came to lead first, our log would have a hole.
        """
        if start > partition.log.high_watermark:
            raise _PutOff(f"its leader starts at {start}, and it is not known here that this is committed")
        if partition.leader_starts(start) and not self._replicas.upkeep.note_starts():
            raise _PutOff("its log start could not be written down")

    async def _ask(self, partition: Partition, todo: Refetch, offset: int) -> PartitionData:
        place = FetchPartition(
            partition=partition.index,
            current_leader_epoch=todo.leader_epoch,
            fetch_offset=offset,
            partition_max_bytes=_PIECE_BYTES,
        )
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=_PIECE_BYTES,
            isolation_level=0,
            session_id=0,
            topics=[FetchTopic(topic_id=partition.topic_id, partitions=[place])],
            forgotten_topics_data=[],
            rack_id="",
        )
        try:
            answer: FetchResponse = await self._peers.call(todo.leader, PURPOSE, request, VERSION, _ANSWER_IN_MS)
        except OSError as error:
            raise _PutOff(f"no answer of leader {todo.leader}: {error}") from error
        if answer.error_code != ErrorCode.NONE or not answer.responses or not answer.responses[0].partitions:
            raise _PutOff(f"leader {todo.leader} answers with error {answer.error_code}")
        return answer.responses[0].partitions[0]

    async def _pause(self, pause_ms: int) -> None:
        slot: Slot[None] = Slot()
        self._around.deadlines.after(max(1, pause_ms), lambda: slot.fill(None))
        await slot

    def _install(self, partition: Partition, built: list[Refetched]) -> None:
        if not built or not all(one.fits for one in built):
            raise _PutOff("its segments have changed meanwhile")
        if self._compactor.works_on(partition):
            raise _PutOff("it is being compacted, from what is to be replaced")
        held = partition.log
        directories = self._replicas.directories
        if directories.cleaned_to(partition) is not None:
            directories.set_cleaned_to(partition, held.log_start_offset)
        self._replicas.moves.begin_anew(partition)
        damaged = held.damage.bases
        for one in built:
            one.install()
        self._compactor.repaired(partition)
        self.repaired_segments += len(set(damaged) & {one.base_offset for one in built})
        held.damage.keep([base for base in damaged if base not in {one.base_offset for one in built}])
        log.warning("%s-%d is repaired: segments %s are the leader's now", partition.topic, partition.index,
                    ", ".join(str(one.base_offset) for one in built))  # fmt: skip

    def _ended(self, story: Slot[None]) -> None:
        self._busy = False
        error = story.error
        if isinstance(error, OSError):
            self._around.disk_failed(error)
        elif isinstance(error, Exception):
            self._around.broken(error)
        else:
            story.result()
            self._around.clock.call_soon(self._look_at_all)
