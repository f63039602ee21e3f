"""The log directories of this broker: opened and recovered one by one, and each of them may fail alone (rule B3).

replicas.py comes here; next door is storage/directory/directory.py. Where a directory cannot be opened and others can,
the broker starts with those. A replica that the metadata places here and that none of them holds is then taken to lie
in the failed one: it is offline, and not made anew, since an empty replica would be taken for what it was.
"""

from __future__ import annotations

import errno
import logging
import posixpath
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ottla.broker.control.incarnations import Incarnations
from ottla.broker.replicas.doubtful_replicas import DoubtfulReplicas, Key
from ottla.broker.replicas.twins import half_made_twins
from ottla.broker.replicas.unreadable import UnreadableReplicas
from ottla.kernel.ids import TopicId, TopicPartition
from ottla.kernel.seams import Disk
from ottla.metadata.state import PartitionState, Topic
from ottla.storage.directory import moving
from ottla.storage.directory.checkpoint import CLEAN_SHUTDOWN, META_PROPERTIES
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
_NO_FILES = (errno.EMFILE, errno.ENFILE)


class LogDirectories:
    """All of `log.dirs`: those that are `online`, in their order, and those that have `failed`, with why."""

    def __init__(self, around: Environment, disk: Disk, paths: Sequence[str], *, needed: str | None) -> None:
        """`needed`: the directory without which the broker cannot go on, as it holds the metadata store."""
        self._around = around
        self.disk = disk
        self.paths = tuple(paths)
        self.needed = needed
        self.online: list[LogDirectory] = []
        self.broken_off: list[tuple[FoundPartition, LogDirectory]] = []
        """Moves to a directory that a crash or a stop has broken off."""
        self.wanted: dict[tuple[str, int], str] = {}
        """The directory in which a replica shall be that is not here yet."""
        self.failed: dict[str, str] = {}
        self.offline: dict[Key, None] = {}
        """Replicas that are placed here and lie, as far as is known, in a directory that has failed, or cannot be
        opened and are the last of their partition."""
        self.unreadable = UnreadableReplicas(around)
        self.recovered: dict[Key, Log] = {}
        """Opened, and not yet taken over by a partition."""
        self.outlived: dict[Key, Log] = {}
        """Replicas that a broken-off move has left beside another, in a directory that is not here any more."""
        self.replaced = False
        """A directory that this broker had when it last registered is not here any more, or nobody knows."""
        self.known: tuple[str, ...] = ()
        """The ids of the directories as this broker last registered."""
        self.volume_bytes: Callable[[str], int] = _unknown
        """The size of a directory's volume in bytes, where the disk can say so."""
        self.incarnations = Incarnations(around, self)
        self.doubtful = DoubtfulReplicas(around, self)
        self.closed: tuple[str, ...] = ()
        """The ids of those that were closed cleanly."""
        self._by_path: dict[str, LogDirectory] = {}
        self._new_ids: dict[str, str] = {}

    # --- opening (recover first, register second: rule A7) ---

    def open(self, cluster_id: str, new_id: Callable[[], str], lock: Callable[[str], HeldLock | None] | None) -> None:
        """Open the directories and recover every log that the metadata knows; what it does not know is set aside."""
        try:
            self._open(cluster_id, new_id, lock)
        except BaseException:
            for directory in self._by_path.values():
                directory.abandon()
                directory.close(clean=False)
            raise

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
                    registering=self.incarnations.own,
                    also_ours=OURS_TOO,
                    lock=lock,
                )
            except OSError as error:
                self._go_without(path, error)
            else:
                self.online.append(directory)
                self._by_path[path] = directory
                self.incarnations.look_at(directory)
        half_made = half_made_twins(self.disk, self.online, self._topic_of, self.known, self.incarnations.is_older)
        for directory in list(self.online):
            try:
                self.unreadable.recover_all(directory, half_made, topic_of=self._topic_of, recover=self._recover)
            except OSError as error:
                directory.fail(error)  # the mark: what one failed sync drops, another does not put on disk
                self._go_without(directory.path, error)
                self._let_go(directory)
        self.unreadable.drop_found_elsewhere(self.recovered)
        self._end_moves()
        for directory in self.online:
            self.unreadable.miss(directory, self.recovered)
        self._see_what_is_missing()
        self.offline.update(dict.fromkeys(self.unreadable.are_the_last()))

    def _go_without(self, path: str, error: OSError) -> None:
        """Start with the other directories, if there are others and this one can be missed; else raises."""
        none_left = len(self.failed) + 1 == len(self.paths)
        if none_left or path == self.needed or error.errno in _NO_FILES:
            raise error
        self.failed[path] = str(error)
        log.error("the log directory %s cannot be used and is offline: %s", path, error)

    def _let_go(self, directory: LogDirectory) -> None:
        """Its logs are not served: of those that were being moved, the other one is the replica, if anything is."""
        self.online.remove(directory)
        for key, opened in list(self.recovered.items()):
            if self.of(opened) is directory:
                del self.recovered[key]
                place = moving.place_of(opened)
                beside = [other.logs[place] for other in self.online if place in other.logs]
                self.recovered.update((key, one) for one in beside if one.topic_id == opened.topic_id)
        directory.abandon()

    def _topic_of(self, found: FoundPartition) -> Topic | None:
        """None for a stray."""
        topics = self._around.metadata.topics
        topic = topics.get(TopicId(found.topic_id)) if found.topic_id is not None else None
        return topic if topic is not None and self.placed_here(topic, found.partition) else None

    def _recover(self, directory: LogDirectory, topic: Topic, found: FoundPartition) -> None:
        around, key = self._around, (topic.topic_id, found.partition)
        opened = self.recovered[key] = directory.open_log(
            found,
            config=around.options.topic_config(topic),
            wall_ms=around.clock.wall_ms(),
            producer_expiration_ms=around.config.producer_id_expiration_ms,
            on_synced=nobody,
        )
        cost = opened.recovered
        log.debug("recovered %s-%d: %d bytes checked", topic.name, found.partition, cost.scanned_bytes)
        for remark in cost.remarks:
            log.warning("%s-%d, offsets %d to %d, %d bytes: %s", topic.name, found.partition, remark.first_offset,
                        max(remark.first_offset, remark.next_offset - 1), remark.bytes, remark.what)  # fmt: skip

    def _end_moves(self) -> None:
        """Settle the moves between directories that a crash broke off (storage/directory/moving.py)."""
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
        """The one of two that stays."""
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
        """Directories that are others than this broker had, as one of those is not here any more."""
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
        """Whether it is here, as far as can be said while a directory has failed: an empty log may have been begun
        here, and then made there. Of one without others it is not asked, as nobody else could serve it."""
        opened, here = self.recovered.get(key), self._around.broker
        if opened is None or opened.end_offset or len(state.replicas) == 1:
            return opened is not None
        directory, place = self.of(opened), moving.place_of(opened)
        noted = any(offsets.get(place) for _, offsets in directory.checkpoints())
        if noted or here not in (*state.in_sync, *state.eligible):
            return True
        del self.recovered[key], directory.logs[place]
        opened.close(clean=False)
        return False

    def begin_anew(self, new_id: Callable[[], str]) -> None:
        """For a new cluster, in which the broker registers before its directories are made.

        A data directory whose metadata store is gone is refused: to begin anew would make every record in it a stray.
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

    def placed_here(self, topic: Topic, index: int) -> bool:
        return index < len(topic.partitions) and self._around.broker in topic.partitions[index].replicas

    # --- what the registration says ---

    def ids(self) -> tuple[str, ...]:
        """The ids of the directories that are online, and of those that were known before and may only have failed."""
        before = self._around.metadata.brokers.get(self._around.broker)
        here = [directory.directory_id for directory in self.online] or list(self._new_ids.values())
        known = () if before is None or not self.failed else before.directories
        return (*here, *(one for one in known if one not in here))

    # --- which directory ---

    def of(self, held: Log) -> LogDirectory:
        """The one that a log lies in."""
        if len(self.paths) == 1:
            return self._by_path[self.paths[0]]
        return self._by_path[posixpath.dirname(held.directory)]

    def holding(self, path: str | None) -> LogDirectory | None:
        """The one in which a path lies that an error names, online or not; None where it names none.

        With one directory it is that one, whatever the error says.
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
        """A new replica where somebody wanted it, else where the fewest others are, as Apache Kafka chooses; in one
        that has room for it."""
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
        """(total, usable) bytes of the volume; -1 where that cannot be known."""
        try:
            return self.volume_bytes(path), self.disk.free_bytes(path)
        except OSError:
            return -1, -1

    @property
    def usable_paths(self) -> list[str]:
        return [directory.path for directory in self.online]

    # --- failing ---

    def may_go_on_without(self, directory: LogDirectory | None) -> bool:
        """Whether the broker serves on when this directory has failed; None: it is not known which has."""
        return directory is not None and directory.path != self.needed and any(
            other is not directory for other in self.online
        )  # fmt: skip

    def fail_all(self, error: OSError) -> None:
        for directory in self.online:
            directory.fail(error)

    def take_offline(self, directory: LogDirectory, error: OSError) -> None:
        """Nothing in it is written any more."""
        directory.fail(error)
        self.online.remove(directory)
        self.failed[directory.path] = str(error)
        log.error("the log directory %s failed and is offline: %s", directory.path, error)

    # --- rounds ---

    def each(self, work: Callable[[LogDirectory], object]) -> None:
        """Do something with every directory; an error of one keeps it from no other, and is raised then."""
        fault: OSError | None = None
        for directory in list(self.online):
            try:
                work(directory)
            except OSError as error:
                fault = fault or error
        if fault is not None:
            raise fault

    def cleaned_to(self, partition: Partition) -> int | None:
        """Up to where compaction has been; None where it never was."""
        return self.of(partition.log).cleaned_to(partition.topic, partition.index)

    def set_cleaned_to(self, partition: Partition, offset: int) -> None:
        self.of(partition.log).set_cleaned_to(partition.topic, partition.index, offset)

    def scrubbed_to(self, partition: Partition) -> int:
        """The offset up to which the scrub that runs has come in a log."""
        return self.of(partition.log).scrubbed.get(TopicPartition(partition.topic, partition.index), 0)

    def note_scrubbed(self, offsets: dict[Partition, int]) -> None:
        """The scrub has come so far in these partitions."""
        by_directory: dict[str, dict[TopicPartition, int]] = {}
        for partition, offset in offsets.items():
            if not partition.log.refusing:
                place = TopicPartition(partition.topic, partition.index)
                by_directory.setdefault(self.of(partition.log).path, {})[place] = offset

        def note(directory: LogDirectory) -> None:
            if directory.path in by_directory:
                directory.note_scrubbed(by_directory[directory.path])

        self.each(note)

    def scrub_ended_ms(self) -> int | None:
        """The end of the last pass over all of them; None while one is under way, or where there was none."""
        ended = [directory.scrub_ended_ms() for directory in self.online]
        times = [one for one in ended if one is not None]
        return min(times) if len(times) == len(ended) else None

    def close(self, *, clean: bool, broker_epoch: int) -> None:
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
    """Stands in until the partition is there: nothing has been submitted to the syncer before."""
