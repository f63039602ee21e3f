"""The log directories of this broker: opened and recovered one by one, and each of them may fail alone (rule B3).

Called by reconcile.py; uses storage/directory/directory.py. If a directory cannot be opened and others can, the broker
starts with those. A replica that the metadata places here and that none of them holds is then assumed to be in the
failed one: it is offline and not made anew, since an empty replica would be mistaken for the full one.
"""

from __future__ import annotations

import logging
import posixpath
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ottla.broker.control.incarnations import Incarnations
from ottla.broker.replicas.doubtful_replicas import DoubtfulReplicas, Key
from ottla.broker.replicas.misnamed import held_by, sort_misnamed
from ottla.broker.replicas.twins import sort_twins
from ottla.broker.replicas.unreadable import NO_FILES, UnreadableReplicas
from ottla.kernel.ids import TopicId, TopicPartition
from ottla.kernel.seams import Disk
from ottla.metadata.partition_state import PartitionState
from ottla.metadata.state import Topic
from ottla.storage.checkpoint import CLEAN_SHUTDOWN, META_PROPERTIES
from ottla.storage.directory import moving
from ottla.storage.directory.directory import HeldLock, LogDirectory
from ottla.storage.directory.found import FoundPartition
from ottla.storage.directory.ownership import DirectoryRefused, refuse_foreign
from ottla.storage.log import FULL_DISK

if TYPE_CHECKING:
    from ottla.broker.environment import Environment
    from ottla.broker.replicas.partition import Partition
    from ottla.storage.log import Log

log = logging.getLogger("ottla.replicas")
METADATA_DIRECTORY = "metadata"
OURS_TOO = (METADATA_DIRECTORY, "port")


class LogDirectories:
    """All of `log.dirs`: those that are `online`, in their order, and those that have `failed`, with the reasons."""

    def __init__(self, around: Environment, disk: Disk, paths: Sequence[str], *, needed: str | None) -> None:
        """`needed`: the directory that holds the metadata store, without which the broker cannot go on."""
        self._around = around
        self.disk = disk
        self.paths = tuple(paths)
        self.needed = needed
        self.online: list[LogDirectory] = []
        self.broken_off: list[tuple[FoundPartition, LogDirectory]] = []
        """Moves between directories that a crash or a stop has interrupted."""
        self.wanted: dict[tuple[str, int], str] = {}
        """By replica that is not here yet, the directory in which it is to be made."""
        self.failed: dict[str, str] = {}
        self.is_open = False
        """True from the end of a successful `open` until `close`."""
        self.all_there = False
        """True if the start could open all of them."""
        self.offline: dict[Key, None] = {}
        """Replicas that are placed here and are presumably in a failed directory, or that cannot be opened and are the
        last of their partition."""
        self.unreadable = UnreadableReplicas(around)
        self.recovered: dict[Key, Log] = {}
        """Opened logs that no partition has taken over yet."""
        self.outlived: dict[Key, Log] = {}
        """Replicas that an interrupted move has left, whose other copy was in a directory that is gone."""
        self.replaced = False
        """True if a directory of this broker's last registration is gone, or if that is not known."""
        self.known: tuple[str, ...] = ()
        """The ids of the directories in this broker's last registration."""
        self.volume_bytes: Callable[[str], int] = _unknown
        """The size of a directory's volume in bytes, if the disk can tell."""
        self.incarnations = Incarnations(around, self)
        self.doubtful = DoubtfulReplicas(around, self)
        self.closed: tuple[str, ...] = ()
        """The ids of the directories that were closed cleanly."""
        self._by_path: dict[str, LogDirectory] = {}
        self._new_ids: dict[str, str] = {}

    # --- opening (recover first, register second: rule A7) ---

    def open(self, cluster_id: str, new_id: Callable[[], str], lock: Callable[[str], HeldLock | None] | None) -> None:
        """Open the directories, recover every log that the metadata knows, and set the others aside."""
        try:
            self._open(cluster_id, new_id, lock)
        except BaseException:
            for directory in self._by_path.values():
                directory.abandon()
                directory.close(clean=False)
            raise
        self.is_open = True

    def _open(self, cluster_id: str, new_id: Callable[[], str], lock: Callable[[str], HeldLock | None] | None) -> None:
        before = self._around.metadata.brokers.get(self._around.broker)
        self.known = () if before is None else tuple(before.directories)
        for path in self.paths:
            try:
                directory = LogDirectory.open(
                    self.disk,
                    path,
                    cluster_id=cluster_id,
                    node_id=self._around.broker,
                    new_directory_id=self._new_ids.get(path) or new_id(),
                    registering=self.incarnations.of_this_run,
                    also_ours=OURS_TOO,
                    lock=lock,
                )
            except OSError as error:
                self._go_without(path, error)
            else:
                self.online.append(directory)
                self._by_path[path] = directory
                self.incarnations.look_at(directory)
        if any(directory.lost_writes for directory in self.online):
            for directory in self.online:  # on one file system, which tells of a failure once
                if not directory.lost_writes:
                    directory.write_again()
        misnamed = sort_misnamed(self.online, self._around.metadata, self.placed_here)
        twins = sort_twins(self.disk, self.online, self._topic_of, self.known, self.incarnations)
        for directory in list(self.online):
            try:
                self.unreadable.recover_all(directory, misnamed, twins, topic_of=self._topic_of, recover=self.recover)
                directory.note_recovered()
            except OSError as error:
                directory.fail(error)  # leaves the mark: pages dropped by a failed sync are not written by the next
                self._go_without(directory.path, error)
                self._let_go(directory)
        self._compare_with_unreadable()
        self._end_moves()
        for directory in self.online:
            self.unreadable.miss(directory, self.recovered)
        self._see_what_is_missing()
        self.all_there = not self.failed
        self.offline.update(dict.fromkeys(self.unreadable.are_the_last()))

    def _go_without(self, path: str, error: OSError) -> None:
        """Start without this directory if there are others and it is not needed; else raise."""
        none_left = len(self.failed) + 1 == len(self.paths)
        if none_left or path == self.needed or error.errno in NO_FILES:
            raise error
        self.failed[path] = str(error)
        log.error("the log directory %s cannot be used and is offline: %s", path, error)

    def _let_go(self, directory: LogDirectory) -> None:
        """Close a failed directory's logs. If one was being moved, the replica is its other copy, if there is one."""
        self.online.remove(directory)
        for key, opened in list(self.recovered.items()):
            if self.of(opened) is directory:
                del self.recovered[key]
                place = moving.place_of(opened)
                beside = [other.logs[place] for other in self.online if place in other.logs]
                self.recovered.update((key, one) for one in beside if one.topic_id == opened.topic_id)
        directory.abandon()

    def _topic_of(self, found: FoundPartition) -> Topic | None:
        """The topic of a found partition; None for a stray, and for a misnamed folder."""
        topic, index = held_by(found, self._around.metadata) or (None, -1)
        if topic is None or (found.topic, found.partition) != (topic.name, index):
            return None
        return topic if self.placed_here(topic, index) else None

    def recover(self, directory: LogDirectory, topic: Topic, found: FoundPartition, *, at_start: bool = True) -> None:
        """Open a log, and log what its recovery has cut or found damaged."""
        around, key = self._around, (topic.topic_id, found.partition)
        opened = self.recovered[key] = directory.open_log(
            found,
            config=around.options.topic_config(topic),
            wall_ms=around.clock.wall_ms(),
            producer_expiration_ms=around.config.producer_id_expiration_ms,
            on_synced=nobody,
            at_start=at_start,
        )
        cost = opened.recovered
        log.debug("recovered %s-%d: %d bytes checked", topic.name, found.partition, cost.scanned_bytes)
        for remark in cost.remarks:
            log.warning("%s-%d, offsets %d to %d, %d bytes: %s", topic.name, found.partition, remark.first_offset,
                        max(remark.first_offset, remark.next_offset - 1), remark.bytes, remark.what)  # fmt: skip

    def _compare_with_unreadable(self) -> None:
        """Settle replicas with one opened and one unreadable folder.

        The unreadable folder is set aside; if it may be the newer one, the opened log is closed and the replica is
        offline.
        """
        for key in [key for key in self.unreadable.by_key if key in self.recovered]:
            opened = self.recovered[key]
            directory, place = self.of(opened), moving.place_of(opened)
            found = next(one for one in directory.found if one.path == opened.directory)
            if not self.unreadable.may_be_the_replica(key, found, directory):
                self.unreadable.drop(key)
                continue
            del self.recovered[key], directory.logs[place]
            opened.close(clean=False)
            other = self.unreadable.by_key[key][0].found.path
            topic = self._around.metadata.topics[TopicId(key[0])]
            self.unreadable.add(directory, topic, found, f"it may be newer in {other}, which cannot be opened")

    def _end_moves(self) -> None:
        """Settle moves between directories that a crash interrupted (storage/directory/moving.py)."""
        by_id = {directory.directory_id: directory for directory in self.online}
        for directory in self.online:
            for found in directory.found:
                place = TopicPartition(found.topic, found.partition)
                opened = directory.logs.get(place)
                if found.beside is None or opened is None:
                    continue
                key, other = (opened.topic_id, opened.partition), by_id.get(found.beside)
                if other is None and self.failed:
                    log.error("%s may be newer in a directory that has failed: it is offline", opened.directory)
                    del self.recovered[key], directory.logs[place]
                    opened.close(clean=False)
                    continue
                if other is None:
                    self.outlived[key] = opened
                    continue
                beside = other.logs.get(place)
                if beside is not None:
                    opened = self._settled(opened, beside) if found.came else self._settled(beside, opened)
                    self.recovered[key] = opened
                moving.unmark(opened)
            if not self.failed:
                self.broken_off += [(found, directory) for found in directory.found_futures]

    def _settled(self, moved: Log, source: Log) -> Log:
        """Choose the copy that stays, and delete the other one."""
        kept, left = (source, moved) if moving.is_newer(source, moved) else (moved, source)
        log.warning("%s was being moved: it stays in %s", moving.place_of(kept), self.of(kept).path)
        kept.start_as(left)
        self.of(left).delete_logs([moving.place_of(left)])
        return kept

    def _see_what_is_missing(self) -> None:
        around = self._around
        if self.failed:
            for topic_id, topic in sorted(around.metadata.topics.items()):
                for state in topic.partitions:
                    key = (bytes(topic_id), state.partition)
                    if around.broker in state.replicas and not self._has(key, state):
                        self.offline[key] = None
        here = {directory.directory_id for directory in self.online}
        self.replaced = not (self.failed or (around.broker in around.metadata.brokers and here.issuperset(self.known)))
        if self.replaced and self.known:
            self._say_new()

    def _say_new(self) -> None:
        """Log new directories, if one of this broker's former directories is missing."""
        lacking = sum(1 for _ in self.doubtful.missing())
        for directory in self.online:
            if directory.directory_id in self.known:
                continue
            what = f"its {META_PROPERTIES} has another directory.id" if directory.found else "it holds no replicas yet"
            log.warning(
                "the log directory %s is new: %s, and one that this broker had is missing. %d replicas that count here "
                "are fetched anew from other brokers, as far as those have them", directory.path, what, lacking,
            )  # fmt: skip

    def _has(self, key: Key, state: PartitionState) -> bool:
        """True if the replica is here, as far as known while a directory has failed.

        An empty log does not count, unless the partition has no other replica: the replica may have been begun here and
        then made in the failed directory.
        """
        opened, here = self.recovered.get(key), self._around.broker
        if opened is None or opened.end_offset or len(state.replicas) == 1:
            return opened is not None
        directory, place = self.of(opened), moving.place_of(opened)
        noted = any(offsets.get(place) for _, offsets in directory.offsets.by_name())
        if noted or here not in (*state.in_sync, *state.eligible):
            return True
        del self.recovered[key], directory.logs[place]
        opened.close(clean=False)
        return False

    def begin_anew(self, new_id: Callable[[], str]) -> None:
        """Prepare a new cluster, in which the broker registers before its directories are made.

        A data directory whose metadata store is gone is refused: in a new cluster all its records would be strays.
        """
        for path in self.paths:
            refuse_foreign(self.disk, path, OURS_TOO)
            if self.disk.exists(posixpath.join(path, META_PROPERTIES)):
                raise DirectoryRefused(
                    f"{path} holds data, but the metadata that says what it is is missing. Restore "
                    f"{posixpath.join(self.paths[0], METADATA_DIRECTORY)} from a backup, say with --join which store "
                    "this broker shares with others, or give it another directory."
                )
        self._new_ids = {path: new_id() for path in self.paths}

    @property
    def new_ids(self) -> tuple[str, ...]:
        """Ids for directories that are made only once the broker has registered."""
        return () if self.online else tuple(self._new_ids.values())

    def is_doubtful(self, directory: LogDirectory) -> bool:
        """True if the directory is older than the cluster knows it, or new to the cluster: it may lack records."""
        is_new = bool(self.known) and directory.directory_id not in self.known
        return is_new or self.incarnations.is_older(directory)

    def placed_here(self, topic: Topic, index: int) -> bool:
        return index < len(topic.partitions) and self._around.broker in topic.partitions[index].replicas

    # --- what the registration says ---

    def ids(self) -> tuple[str, ...]:
        """The ids of online directories, and of former ones that may only have failed."""
        before = self._around.metadata.brokers.get(self._around.broker)
        here = [directory.directory_id for directory in self.online] or list(self._new_ids.values())
        known = () if before is None or not self.failed else before.directories
        return (*here, *(one for one in known if one not in here))

    # --- which directory ---

    def of(self, held: Log) -> LogDirectory:
        """The directory of a log."""
        if len(self.paths) == 1:
            return self._by_path[self.paths[0]]
        return self._by_path[posixpath.dirname(held.directory)]

    def holding(self, path: str | None) -> LogDirectory | None:
        """The directory of the path that an error names, online or not; None if it names none.

        With a single directory it is that one, for any error.
        """
        if len(self.paths) == 1:
            return self.online[0] if self.online else None
        best = ""
        for root in self._by_path:
            if path is not None and len(root) > len(best) and (path == root or path.startswith(root + posixpath.sep)):
                best = root
        return self._by_path.get(best)

    def online_at(self, path: str) -> LogDirectory | None:
        return next((directory for directory in self.online if directory.path == path), None)

    def create(self, topic: Topic, index: int) -> Log:
        """Create a replica in the directory that was requested, else in the one with the fewest replicas, as in Apache
        Kafka, that has room for it."""
        wanted = self.online_at(self.wanted.get((topic.name, index), ""))
        by_count = sorted(self.online, key=lambda directory: len(directory.logs) + len(directory.futures))
        full: OSError | None = None
        for directory in by_count if wanted is None else [wanted]:
            try:
                created = self._create_in(directory, topic, index)
            except OSError as error:
                if error.errno not in FULL_DISK:
                    raise
                full = full or error
            else:
                self.wanted.pop((topic.name, index), None)
                return created
        assert full is not None
        raise full

    def _create_in(self, directory: LogDirectory, topic: Topic, index: int) -> Log:
        around = self._around
        self.unreadable.make_way(directory, topic, index)
        self.incarnations.note_metadata(directory)
        return directory.create_log(
            topic.name,
            index,
            topic.topic_id,
            config=around.options.topic_config(topic),
            wall_ms=around.clock.wall_ms(),
            producer_expiration_ms=around.config.producer_id_expiration_ms,
            on_synced=nobody,
        )

    def room(self, path: str) -> tuple[int, int]:
        """(total, usable) bytes of the volume; -1 if unknown."""
        try:
            return self.volume_bytes(path), self.disk.free_bytes(path)
        except OSError:
            return -1, -1

    @property
    def usable_paths(self) -> list[str]:
        return [directory.path for directory in self.online]

    # --- failing ---

    def may_go_on_without(self, directory: LogDirectory | None) -> bool:
        """True if the broker can go on after this directory has failed; None stands for an unknown directory."""
        return directory is not None and directory.path != self.needed and any(
            other is not directory for other in self.online
        )  # fmt: skip

    def fail_all(self, error: OSError) -> None:
        for directory in self.online:
            directory.fail(error)

    def take_offline(self, directory: LogDirectory, error: OSError) -> None:
        """Take a directory offline: nothing in it is written any more."""
        directory.fail(error)
        self.online.remove(directory)
        self.failed[directory.path] = str(error)
        log.error("the log directory %s failed and is offline: %s", directory.path, error)

    # --- rounds ---

    def each(self, work: Callable[[LogDirectory], object]) -> None:
        """Call `work` with every directory; an error does not skip the others, and is raised at the end."""
        fault: OSError | None = None
        for directory in list(self.online):
            try:
                work(directory)
            except OSError as error:
                fault = fault or error
        if fault is not None:
            raise fault

    def cleaned_to(self, partition: Partition) -> int | None:
        """The offset up to which the log was compacted; None if it never was."""
        return self.of(partition.log).offsets.cleaned_to(partition.topic, partition.index)

    def set_cleaned_to(self, partition: Partition, offset: int) -> None:
        self.of(partition.log).offsets.set_cleaned_to(partition.topic, partition.index, offset)

    def scrubbed_to(self, partition: Partition) -> int:
        """The offset that the present scrub has reached in a log."""
        return self.of(partition.log).offsets.scrubbed_to(TopicPartition(partition.topic, partition.index))

    def note_scrubbed(self, offsets: dict[Partition, int]) -> None:
        """Note the offsets that the scrub has reached in these partitions."""
        by_directory: dict[str, dict[TopicPartition, int]] = {}
        for partition, offset in offsets.items():
            if not partition.log.refusing:
                place = TopicPartition(partition.topic, partition.index)
                by_directory.setdefault(self.of(partition.log).path, {})[place] = offset

        def note(directory: LogDirectory) -> None:
            if directory.path in by_directory:
                directory.offsets.note_scrubbed(by_directory[directory.path])

        self.each(note)

    def scrub_ended_ms(self) -> int | None:
        """The end of the last scrub over all directories; None during a pass, or before the first."""
        ended = [directory.offsets.scrub_ended_ms() for directory in self.online]
        times = [one for one in ended if one is not None]
        return min(times) if len(times) == len(ended) else None

    def close(self, *, clean: bool, broker_epoch: int) -> None:
        self.is_open = False
        online, self.online = self.online, []
        for directory in self._by_path.values():
            try:
                self.incarnations.note_metadata(directory, online=clean and directory in online)
                if clean and directory in online:
                    directory.witness.closing()
                directory.close(clean=clean and directory in online, broker_epoch=broker_epoch)
                if self.disk.exists(posixpath.join(directory.path, CLEAN_SHUTDOWN)):
                    self.closed += (directory.directory_id,)
            except OSError as error:
                directory.fail(error)
                if len(self.paths) == 1:
                    raise
                log.error("the log directory %s was not closed, its next start recovers: %s", directory.path, error)


def _unknown(path: str) -> int:
    return -1


def nobody(offset: int) -> None:
    """Do nothing, as a placeholder until the partition exists: no sync is submitted before."""
