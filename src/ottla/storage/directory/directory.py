"""A log directory: its lock and the logs open in it, from its opening to its close. Comes from broker/node.py.

Next door are ownership.py (whose it is), found.py (the partitions in it), noted_offsets.py (the numbers in its
checkpoints), witnesses.py (which of them are believed), and strays.py (files that are kept aside).

The names and formats are Apache Kafka's. A directory fails as a whole (rule B3): after an I/O error or a failed sync
nothing in it is written any more; a full disk only refuses batches.
"""

from __future__ import annotations

import errno
import logging
import posixpath
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from typing import Protocol

from ottla.config.topic import TopicConfig
from ottla.kernel.ids import TopicPartition
from ottla.kernel.seams import Disk
from ottla.kernel.trusted_time import TimeFor
from ottla.storage import checkpoint, recovery
from ottla.storage.directory import page_cache, strays
from ottla.storage.directory.age import DirectoryAge
from ottla.storage.directory.deletions import Deletions
from ottla.storage.directory.found import FoundPartition, find_partitions, found_at, give_second_copy, left_of
from ottla.storage.directory.incarnation import Witness
from ottla.storage.directory.noted_offsets import NotedOffsets
from ottla.storage.directory.ownership import LOCK, DirectoryRefused, identified, refuse_foreign
from ottla.storage.directory.witnesses import compared
from ottla.storage.leftovers import set_aside_in, set_misfits_aside, set_unexplained_aside
from ottla.storage.log import Log
from ottla.storage.values import FULL_DISK, fits, tail_bytes

storage_log = logging.getLogger("ottla.storage")


def _always(log: Log) -> bool:
    return True


class HeldLock(Protocol):
    def release(self) -> None: ...


class LogDirectory:
    """One `log.dirs` entry."""

    def __init__(self, disk: Disk, path: str, lock: HeldLock | None) -> None:
        """Made by `open`."""
        self.disk = disk
        self.path = path
        self.directory_id = ""
        self.witness = Witness(disk, path)
        self.age = DirectoryAge(disk, path)
        self.clean = False
        """True if the last close was a clean one."""
        self.unopened = False
        """True if a partition that was found could not be opened: a failed sync may have dropped bytes of it."""
        self.lost_writes = False
        """True if a write has failed before this start, and the process that was to hear of it was killed."""
        self.cache_kept = False
        """True if all that was written before is there, synced or not (page_cache.py)."""
        self.failed: str | None = None
        """The reason why the directory is offline; None while it is not."""
        self.logs: dict[TopicPartition, Log] = {}
        self.futures: dict[TopicPartition, Log] = {}
        """Replicas that are being moved here from other directories (moving.py)."""
        self.found_futures: list[FoundPartition] = []
        """Future replicas that a crash or a stop has left; they are thrown away."""
        self.found: list[FoundPartition] = []
        """Partitions that were there at the opening; each is for `open_log` or `discard`."""
        self.gone: dict[TopicPartition, range] = {}
        """Partitions whose folder is missing, and the offsets that each held, as far as the checkpoints say."""
        self.offsets = NotedOffsets(disk, path)
        self.deletions = Deletions(disk, path, self.offsets)
        self._lock = lock
        self._owes_note = False

    @classmethod
    def open(
        cls,
        disk: Disk,
        path: str,
        *,
        cluster_id: str,
        node_id: int,
        new_directory_id: str,
        registering: str = "",
        also_ours: Collection[str] = (),
        lock: Callable[[str], HeldLock | None] | None = None,
    ) -> LogDirectory:
        """Lock it, check its owner, read its checkpoints; DirectoryRefused where this broker may not use it.

        `also_ours`: names beside Kafka's own that a new directory may hold already (the metadata store's).
        `lock` is `LocalDisk.lock`; a simulated disk needs none. `new_directory_id` is taken where the directory is new.
        `registering`: the incarnation as which the broker is about to register (incarnation.py).
        """
        refuse_foreign(disk, path, also_ours)
        disk.make_directory(path)
        held = None
        if lock is not None:
            held = lock(posixpath.join(path, LOCK))
            if held is None:
                raise DirectoryRefused(
                    f"{path} is in use: another process (a second ottla, or Apache Kafka) holds its {LOCK} file."
                )
        directory = cls(disk, path, held)
        is_new = not disk.exists(posixpath.join(path, checkpoint.META_PROPERTIES))
        try:
            directory.directory_id = identified(disk, path, cluster_id, node_id, new_directory_id)
            directory._remember(registering)
            if not directory.clean and not is_new and disk.lost_writes(path):
                directory.lost_writes = True
                directory.write_again()
        except BaseException:
            if held is not None:
                held.release()
            raise
        return directory

    # -- opening ---

    def _remember(self, registering: str) -> None:
        self.age.load()
        self.clean = self.witness.begin(registering, marker := posixpath.join(self.path, checkpoint.CLEAN_SHUTDOWN))
        for name in self.disk.list(self.path):
            inside = posixpath.join(self.path, name)
            if name.endswith(checkpoint.TEMPORARY) and not self.disk.is_directory(inside):
                self.disk.remove(inside)
        self.cache_kept = page_cache.was_kept(self.disk, self.path)
        self.found, self.found_futures, self.deletions.doomed = find_partitions(self.disk, self.path)
        if not self.found:
            page_cache.leave_note(self.disk, self.path)
        here = {TopicPartition(each.topic, each.partition) for each in self.found}
        self.offsets.load(here)
        for place in sorted(self.offsets.places() - here):
            held = self.offsets.held(place)
            if held.stop and not left_of(self.disk, self.path, place):
                self.gone[place] = held
        if self.clean:  # gone before anything is written: the next crash must not look clean
            self.disk.remove(marker)
            self.disk.sync_directory(self.path)

    def write_again(self) -> None:
        """Let recovery write again what a failed sync may have dropped; a clean close has left nothing to recover."""
        if not self.clean:
            storage_log.warning(
                "%s: a write failed before this start: what may be missing on the disk is written again", self.path
            )
            checkpoint.mark_failed_sync(self.disk, self.path)

    # -- logs ---

    def open_log(
        self,
        found: FoundPartition,
        *,
        config: TopicConfig,
        wall_ms: int,
        producer_expiration_ms: int,
        on_synced: Callable[[int], None],
        at_start: bool = True,
    ) -> Log:
        """Open, and after a crash recover, a partition that was found.

        One that is opened later is recovered in any case: the first attempt may have changed its files. A folder that
        cannot be written is refused here, since after the start the first write there fails the whole directory.
        """
        self.disk.refuse_unwritable(found.path)
        place, clean = TopicPartition(found.topic, found.partition), self.clean and at_start
        with self.disk.alone_in(found.path):
            set_misfits_aside(self.disk, found.path, clean=clean, wall_ms=wall_ms)
            noted = self.offsets.noted(place, clean=clean)
            start, recovery_point = compared(self.disk, found.path, str(place), noted)
            self.offsets.believe_start(place, start)
            self.deletions.note_aside(set_unexplained_aside(self.disk, found.path, start=start, wall_ms=wall_ms))
            opened = Log.open(
                self.disk,
                found.path,
                topic=found.topic,
                partition=found.partition,
                topic_id=found.topic_id or bytes(16),
                config=config,
                clean=clean,
                recovery_point=recovery_point,
                log_start_offset=start,
                wall_ms=wall_ms,
                producer_expiration_ms=producer_expiration_ms,
                on_synced=on_synced,
                committed=self.offsets.committed_for_sure(place),
                cache_kept=self.cache_kept or (self.clean and not at_start),
                compacted=self.offsets.cleaned_to(*place) is not None,
                tail_bytes=tail_bytes(len(self.found)),
            )
            if opened.recovered.truncated_bytes:
                self.deletions.note_aside(set_aside_in(self.disk, found.path))
            try:
                give_second_copy(self.disk, found)
            except OSError:
                opened.close(clean=False)
                raise
        if not at_start:
            self._lower([opened])
        return self._keep(place, opened)

    def note_recovered(self) -> None:
        """Lower the checkpoints of opened logs that a loss of power has cut, then leave the page cache's note.

        A log with write.caching may end below its checkpointed high watermark and start. If these stayed, the next
        start, after a mere kill, would take the lost records for damage, and records written in their place for deleted
        ones. The note is owed until there is room for it and all logs are open: without it the next start opens the
        logs as after a loss of power.
        """
        self._lower(self.logs.values())
        self._owes_note = True
        self._leave_owed_note()

    def _lower(self, logs: Iterable[Log]) -> None:
        if self._power_was_lost:
            self.offsets.lower(log for log in logs if log.write_caching)

    @property
    def _power_was_lost(self) -> bool:
        """True if power was lost before this start: unsynced writes may be gone."""
        return not (self.clean or self.cache_kept)

    def _leave_owed_note(self) -> None:
        if self._owes_note and self.failed is None and not (self._power_was_lost and self.unopened):
            self._owes_note = not fits(self._leave_note)

    def _leave_note(self) -> None:
        self.offsets.write_lowered()
        page_cache.leave_note(self.disk, self.path)

    def create_log(
        self,
        topic: str,
        partition: int,
        topic_id: bytes,
        *,
        config: TopicConfig,
        wall_ms: int,
        producer_expiration_ms: int,
        on_synced: Callable[[int], None],
    ) -> Log:
        """A new log. A folder of that name that may hold records is set aside first."""
        place = TopicPartition(topic, partition)
        path = posixpath.join(self.path, str(place))
        self._clear(path, place, wall_ms=wall_ms)
        self.offsets.forget([place])
        created = Log.create(
            self.disk,
            path,
            topic=topic,
            partition=partition,
            topic_id=topic_id,
            config=config,
            wall_ms=wall_ms,
            producer_expiration_ms=producer_expiration_ms,
            on_synced=on_synced,
        )
        return self._keep(place, created)

    def _clear(self, path: str, place: TopicPartition, *, wall_ms: int) -> None:
        if not self.disk.is_directory(path):
            return
        with suppress(OSError):
            if recovery.never_held(self.disk, path):
                return  # a crash or a full disk kept a new log from being made whole
        found = found_at(self.disk, path, place)
        reason = "a new log is made under its name, and its records are not those of that log"
        storage_log.warning("%s is set aside, with all its records: %s", path, reason)
        self.set_strays_aside([(found, reason)], wall_ms=wall_ms)

    def adopt(self, place: TopicPartition) -> None:
        """The future log is the replica's log from now on."""
        self._keep(place, self.futures.pop(place))

    def set_aside(self, path: str, place: TopicPartition, topic_id: bytes) -> None:
        """Rename the folder of a closed log, to be deleted later."""
        self.deletions.doom(path, place, topic_id)
        self.disk.sync_directory(self.path)

    def _keep(self, place: TopicPartition, log: Log) -> Log:
        def before_cut(offset: int) -> None:
            self._refuse_if_failed(log.directory)  # a cut whose checkpoints tell of more would look like damage
            if self.offsets.recovery_point(place) > log.recovery_point:
                self.checkpoint_recovery_points()
            self.offsets.before_cut(log, offset)

        log.listen(before_cut=before_cut)
        self.logs[place] = log
        return log

    def delete_logs(self, places: Collection[TopicPartition]) -> None:
        """Close logs and rename their directories to `*-delete` (rule B4); deletions.py does the rest later.

        May be repeated with the same places after an error.
        """
        for place in places:
            log = self.logs.get(place)
            if log is not None:
                self.deletions.doom(log.directory, place, log.topic_id)
                del self.logs[place]
                log.close(clean=False)
        self.disk.sync_directory(self.path)
        self.offsets.forget(places)

    def discard(self, half_made: Collection[FoundPartition]) -> None:
        """Delete partitions that never held a record: a crash or a failed directory interrupted their creation."""
        places = [TopicPartition(found.topic, found.partition) for found in half_made]
        for found, place in zip(half_made, places, strict=True):
            self.deletions.doom(found.path, place, found.topic_id or bytes(16))
        self.disk.sync_directory(self.path)
        fits(lambda: self.offsets.forget(places))

    def set_strays_aside(self, found: Collection[tuple[FoundPartition, str]], *, wall_ms: int) -> None:
        """Rename stray folders, note the reason of each, and forget them: no start deletes records (rule H4)."""
        places = [TopicPartition(one.topic, one.partition) for one, _ in found]
        for (one, reason), place in zip(found, places, strict=True):
            known = {name: offsets[place] for name, offsets in self.offsets.by_name() if place in offsets}
            strays.set_aside(self.disk, self.path, one, reason=reason, known=known, wall_ms=wall_ms)
        self.disk.sync_directory(self.path)
        fits(lambda: self.offsets.forget(places))  # else a new log of that name tries again to forget the old entries

    def forget_gone(self, kept: Collection[TopicPartition]) -> None:
        """Drop the checkpoints' entries of partitions that are not here, except those in `kept`, which are missing."""
        here = {TopicPartition(found.topic, found.partition) for found in self.found}
        fits(lambda: self.offsets.forget(self.offsets.places() - here - set(self.logs) - set(kept)))

    # -- checkpoints ---

    def checkpoint_recovery_points(self) -> None:
        """Write the recovery points, so that a start after a crash checks only what came after them."""
        if self.failed is None and not self.unopened:  # else all logs are recovered by now
            self.disk.remove(posixpath.join(self.path, checkpoint.SYNC_FAILED))
        self._checkpoint(checkpoint.RECOVERY_POINT, lambda log: log.recovery_point)

    def checkpoint_log_starts(self) -> None:
        """Write the log starts; after DeleteRecords and retention, before the files go."""
        self._checkpoint(checkpoint.LOG_START, lambda log: log.log_start_offset)

    def checkpoint_high_watermarks(self) -> None:
        self._leave_owed_note()
        self._checkpoint(checkpoint.REPLICATION, self.offsets.committed)

    def _checkpoint(self, name: str, of: Callable[[Log], int]) -> None:
        """Write one checkpoint.

        The entry of a log that takes no writes because of damage stays: its present end would lower the entry.
        """
        if self.failed is None:
            self.offsets.note(name, {place: of(log) for place, log in self.logs.items() if log.damaged_at is None})

    # -- the owner's rounds ---

    def apply_retention(
        self, wall_ms: int, *, time_for: TimeFor | None = None, leads: Callable[[Log], bool] = _always
    ) -> int:
        """Retention of every log, in the order that a crash cannot undo: starts, their checkpoint, then the files.

        A last segment that is too old is sealed, and goes in the round after its sync (`Log.flush_due` asks for it).
        `time_for`: the trusted time. `leads`: True for logs whose age and size count here (`Log.apply_retention`).
        """
        self._refuse_if_failed(self.path)  # nothing could note the starts
        gone = sum(log.apply_retention(wall_ms, time_for=time_for, leads=leads(log)) for log in self.logs.values())
        try:
            self.checkpoint_recovery_points()
            self.checkpoint_log_starts()
            full = False
        except OSError as fault:
            if fault.errno not in FULL_DISK:
                raise
            full = True  # deleting makes room again
        for log in self.logs.values():
            log.purge(wall_ms, one_by_one=full)
        return gone

    def fail(self, error: OSError) -> None:
        """Take the directory offline: nothing in it is written any more, but a mark for the next recovery."""
        if self.failed is None:
            self.failed = str(error)
            checkpoint.mark_failed_sync(self.disk, self.path)
        for log in (*self.logs.values(), *self.futures.values()):
            log.stop_writing()

    def _refuse_if_failed(self, path: str) -> None:
        if self.failed is not None:
            raise OSError(errno.EIO, "its log directory has failed", path)

    def abandon(self) -> None:
        """Drop the logs of an offline directory, without a sync; its lock stays until `close`."""
        logs = [*self.logs.values(), *self.futures.values()]
        self.logs.clear()
        self.futures.clear()
        for log in logs:
            with suppress(OSError):
                log.close(clean=False)

    def close(self, *, clean: bool, broker_epoch: int = -1) -> None:
        """Close all logs and let the lock go. The directory is marked clean only if everything was synced.

        On a full disk the mark is left out, and the next opening recovers.
        """
        clean = clean and self.failed is None and not self.unopened
        try:
            with self.disk.gathered(self.path):
                for future in self.futures.values():
                    future.close(clean=False)
                for log in self.logs.values():
                    clean = clean and not log.refusing
                    clean = fits(lambda log=log, clean=clean: log.close(clean=clean)) and clean  # type: ignore[misc]
            if clean:
                fits(lambda: self._mark_clean(broker_epoch))
        finally:
            if self._lock is not None:
                self._lock.release()

    def _mark_clean(self, broker_epoch: int) -> None:
        self.checkpoint_recovery_points()
        self.checkpoint_log_starts()
        self.checkpoint_high_watermarks()
        body = f'{{"version":0,"brokerEpoch":"{broker_epoch}"}}'.encode()
        checkpoint.replace_file(self.disk, posixpath.join(self.path, checkpoint.CLEAN_SHUTDOWN), body)
