"""Replicas on their way to other log directories of this broker (KIP-113): copied off the hot path, then swapped in.

handlers/alter_replica_log_dirs.py begins moves; storage/directory/moving.py handles the files. One replica is copied at
a time, some bytes a turn, no faster than `replica.alter.log.dirs.io.max.bytes.per.second`; it is served meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Protocol

from ottla.broker.replicas.doubtful_replicas import Key
from ottla.broker.replicas.log_directories import LogDirectories
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicPartition, new_id
from ottla.kernel.seams import FileSlice
from ottla.kernel.story import Slot, run_story
from ottla.storage.directory import moving
from ottla.storage.directory.directory import LogDirectory
from ottla.storage.log import FULL_DISK

if TYPE_CHECKING:
    from ottla.broker.environment import Environment
    from ottla.broker.replicas.partition import Partition
    from ottla.broker.replicas.removal import Removal
    from ottla.storage.log import Log

log = logging.getLogger("ottla.moves")
Warm = Callable[[FileSlice, Callable[[], None]], bool]
"""Returns True if a piece is in memory; else reads it, and calls the callback on the loop."""
_NAME_MAX = 255
_SLICE_BYTES = 256 << 10
_SYNC_BYTES = 16 << 20
"""Bytes that are copied between two syncs."""
_LAST_BYTES = 1 << 20
"""The most bytes that are synced in the turn of the swap itself."""
_LOOK_MS = 5
_LATER_MS = 1000


class ReplicaMove:
    """One moving replica."""

    __slots__ = (
        "dropped",
        "future",
        "logged_why",
        "partition",
        "syncing",
        "target",
        "unsynced_bytes",
        "warm_from",
        "warming",
    )

    def __init__(self, partition: Partition, target: LogDirectory, future: Log) -> None:
        self.partition = partition
        self.target = target
        self.future = future
        self.dropped = False
        """True if the future log was dropped, and another one is to be begun."""
        self.unsynced_bytes = 0
        self.syncing = False
        self.warm_from = -1
        """The end of the copy when the pages of the next piece were last checked."""
        self.warming = 0
        """Pieces that are being read into memory."""
        self.logged_why = ""
        """The last logged reason why the move does not go on."""

    @property
    def lag(self) -> int:
        """The number of offsets that are not copied yet."""
        return max(0, self.partition.log.end_offset - self.future.end_offset)


class MovableReplicas(Protocol):
    """The replicas here: reconcile.py."""

    @property
    def by_id(self) -> Mapping[Key, Partition]: ...

    def together(self, count: int) -> AbstractContextManager[None]:
        """A block in which the syncs of `count` logs are gathered."""


class ReplicaMoves:
    """All moves of this broker, in the order in which they were asked for."""

    def __init__(
        self,
        around: Environment,
        directories: LogDirectories,
        replicas: MovableReplicas,
        removal: Removal,
        is_compacting: Callable[[Partition], bool],
    ) -> None:
        """`is_compacting` tells whether a log is being compacted: then it is not copied."""
        self._around = around
        self._directories = directories
        self._replicas = replicas
        self._removal = removal
        self._is_compacting = is_compacting
        self._moves: dict[Key, ReplicaMove] = {}
        self.warm: Warm = _is_warm
        self._running = self._stopped = False

    def __iter__(self) -> Iterator[ReplicaMove]:
        return iter(self._moves.values())

    def holds(self, partition: Partition) -> bool:
        """True if the replica is moving: it is not compacted meanwhile, since the part already copied would not be."""
        return (partition.topic_id, partition.index) in self._moves

    # --- requests ---

    def alter(self, path: str, partition: Partition) -> ErrorCode:
        """Begin to move a replica, redirect a running move, or leave the replica where it is."""
        key = (partition.topic_id, partition.index)
        before = self._moves.get(key)
        if before is not None and before.target.path == path:
            return ErrorCode.NONE
        self.cancel(key)
        if self._directories.of(partition.log).path == path:
            return ErrorCode.NONE
        target = self._directories.online_at(path)
        if target is None or self._directories.failed:
            return ErrorCode.KAFKA_STORAGE_ERROR  # the failed directory may hold a future log
        try:
            self._begin(key, partition, target)
        except OSError as error:
            self._discard(key, target)
            if error.errno in FULL_DISK:
                log.warning("no room for %s-%d in %s: %s", partition.topic, partition.index, path, error)
            else:
                self._around.disk_failed(error)
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NONE

    def name_fits(self, topic: str, index: int) -> bool:
        """True if there may be a future log of that name."""
        return len(moving.future_name(TopicPartition(topic, index), "0" * 32)) <= _NAME_MAX

    def _begin(self, key: Key, partition: Partition, target: LogDirectory) -> None:
        moving.unmark(partition.log)
        self._moves[key] = ReplicaMove(partition, target, self._new_future(partition, target))
        log.info("%s-%d begins to move to %s", partition.topic, partition.index, target.path)
        if not self._running:
            self._running = True
            self._around.clock.call_soon(self._start)

    def _new_future(self, partition: Partition, target: LogDirectory) -> Log:
        unique, wall_ms = new_id(self._around.entropy).hex(), self._around.clock.wall_ms()
        future = moving.begin(partition.log, target, unique, wall_ms=wall_ms)
        future.listen(on_failed=self._around.disk_failed)
        return future

    def _discard(self, key: Key, target: LogDirectory) -> None:
        """Remove the future log of a move that could not be begun."""
        for future in [one for one in target.futures.values() if (one.topic_id, one.partition) == key]:
            with suppress(OSError):
                moving.abandon(future, target)

    def _start(self) -> None:
        story = run_story(self._run())
        story.when_full(lambda: self._ended(story))

    def begin_anew(self, partition: Partition) -> None:
        """Begin another copy, once there is room: the present one no longer matches the log."""
        move = self._moves.get((partition.topic_id, partition.index))
        if move is None or move.dropped:
            return
        move.dropped = True
        try:
            moving.abandon(move.future, move.target)
            self._removal.later()
        except OSError as error:
            if error.errno not in FULL_DISK:
                self._around.disk_failed(error)

    def go_on(self) -> None:
        """After a start: begin interrupted moves anew, and tell the cluster which replicas may be old."""
        outlived, self._directories.outlived = self._directories.outlived, {}
        for left in outlived.values():
            self._unmark(left)
        broken_off, self._directories.broken_off = self._directories.broken_off, []
        try:
            with self._replicas.together(len(broken_off)):
                for found, target in broken_off:
                    partition = self._replicas.by_id.get((found.topic_id or b"", found.partition))
                    if partition is not None:
                        self.alter(target.path, partition)
        except OSError as error:
            self._around.disk_failed(error)

    # --- ending without a swap ---

    def cancel(self, key: Key) -> None:
        """Cancel a move: delete its future log, as far as the disk permits; the next start deletes the rest."""
        move = self._moves.pop(key, None)
        if move is None or move.target not in self._directories.online:
            return
        try:
            if not move.dropped:
                moving.abandon(move.future, move.target)
            self._removal.later()
            if not move.partition.log.refusing:
                moving.unmark(move.partition.log)
        except OSError as error:
            if error.errno not in FULL_DISK:
                self._around.disk_failed(error)

    def directory_failed(self, directory: LogDirectory) -> None:
        for key, move in list(self._moves.items()):
            if move.target is directory:
                del self._moves[key]
                log.error("%s-%d stays where it is: %s has failed", *key_name(move), directory.path)
                if self._directories.of(move.partition.log) is not directory and not move.partition.log.refusing:
                    self._unmark(move.partition.log)

    def stop(self) -> None:
        self._stopped = True
        self._moves.clear()

    # --- copying ---

    async def _run(self) -> None:
        while self._moves and not self._stopped:
            key, move = next(iter(self._moves.items()))
            wait_ms: int | None = 0
            while wait_ms is not None and self._moves.get(key) is move:
                wait_ms = self._step(move)
                if wait_ms:
                    await self._pause(wait_ms)
                if wait_ms == _LATER_MS and self._moves.get(key) is move:
                    self._moves[key] = self._moves.pop(key)  # other moves need not wait for this one
                    break
        self._running = False

    def _step(self, move: ReplicaMove) -> int | None:
        """Do some work; return the wait before the next step, or None if the move has ended."""
        try:
            return self._copy(move)
        except moving.Apart:
            self.begin_anew(move.partition)
            return _LOOK_MS
        except OSError as error:
            if error.errno in FULL_DISK:
                self._unmark(move.partition.log)
                return self._later(move, f"no room: {error}")
            self._around.disk_failed(error)
            return _LATER_MS

    def _copy(self, move: ReplicaMove) -> int | None:
        around, current, future = self._around, move.partition.log, move.future
        if move.target.failed is not None:
            return _LATER_MS  # the directory is being taken offline
        if future.refusing:
            self.begin_anew(move.partition)  # a change of the future log was interrupted half-way
        if move.dropped:
            return self._begin_again(move)
        if current.refusing or current.damage or self._is_compacting(move.partition):
            return self._later(move, "its log is being repaired or compacted")
        if move.syncing and future.bounds.on_disk < future.bounds.end and not future.refusing:
            return _LOOK_MS
        move.syncing = False
        rate = max(1, around.config.replica_alter_log_dirs_io_max_bytes_per_second)
        most = min(_SLICE_BYTES, rate)
        if self._is_cold(move, most):
            return _LOOK_MS
        copied = moving.copy_some(current, future, most, wall_ms=around.clock.wall_ms())
        if isinstance(copied, ErrorCode):
            if copied == ErrorCode.CORRUPT_MESSAGE:
                move.partition.suspect(future.end_offset)
            return self._later(move, f"error {int(copied)} at offset {future.end_offset}")
        move.unsynced_bytes += copied
        if copied == 0 and move.unsynced_bytes <= _LAST_BYTES:
            self._swap(move)
            return None
        if copied == 0 or move.unsynced_bytes >= _SYNC_BYTES:
            move.unsynced_bytes, move.syncing = 0, True
            around.syncer.submit(future)
        return max(1, 1000 * copied // rate)

    def _begin_again(self, move: ReplicaMove) -> int:
        """Begin again with a new future log; on a full disk try again later."""
        self._removal.later()
        move.future = self._new_future(move.partition, move.target)
        move.dropped, move.syncing, move.unsynced_bytes, move.warm_from = False, False, 0, -1
        return _LOOK_MS

    def _is_cold(self, move: ReplicaMove, most: int) -> bool:
        """True while the next piece is being read into memory: the loop does not wait for the disk (rule E6)."""
        if move.warm_from != move.future.end_offset:
            move.warm_from = move.future.end_offset
            for piece in moving.ahead(move.partition.log, move.future, most):
                move.warming += not self.warm(piece, lambda: _warmed(move))
                piece.release()
        return move.warming > 0

    def _later(self, move: ReplicaMove, why: str) -> int:
        if move.logged_why != why:
            move.logged_why = why
            log.warning("%s-%d waits on its way to %s: %s", *key_name(move), move.target.path, why)
        return _LATER_MS

    async def _pause(self, pause_ms: int) -> None:
        slot: Slot[None] = Slot()
        self._around.deadlines.after(pause_ms, lambda: slot.fill(None))
        await slot

    # --- the swap ---

    def _swap(self, move: ReplicaMove) -> None:
        """Swap the logs in one turn, so that no append comes between. `_step` handles errors before `move_in`."""
        partition, future, target = move.partition, move.future, move.target
        current = partition.log
        source = self._directories.of(current)
        moving.prepare(current, source, future, target)
        try:
            moving.move_in(current, future, target)
        except OSError as error:
            if error.errno in FULL_DISK and moving.still_future(future):
                raise
            self._around.disk_failed(_with_path(error, target.path))
            return
        del self._moves[(partition.topic_id, partition.index)]
        partition.go_on_in(future)
        try:
            moving.move_out(current, source)
        except OSError as error:
            self._around.disk_failed(_with_path(error, source.path))
        self._unmark(future)
        self._removal.later()
        log.info("%s-%d has moved to %s", *key_name(move), target.path)

    def _unmark(self, served: Log) -> None:
        try:
            moving.unmark(served)
        except OSError as error:
            if error.errno not in FULL_DISK:
                self._around.disk_failed(error)

    def _ended(self, story: Slot[None]) -> None:
        """Note the end of the story; a bug in it stops the broker, as a bug in replication does."""
        if isinstance(story.error, Exception):
            self._around.broken(story.error)
        else:
            story.result()


def _is_warm(piece: FileSlice, done: Callable[[], None]) -> bool:
    return True


def _warmed(move: ReplicaMove) -> None:
    move.warming -= 1


def key_name(move: ReplicaMove) -> tuple[str, int]:
    return move.partition.topic, move.partition.index


def _with_path(error: OSError, path: str) -> OSError:
    """The error with a path of this directory, which fails the directory, also for a full disk."""
    return OSError(error.errno, str(error), path)
