"""Replicas whose files are here and cannot be opened: each alone is offline, with its reason, and no file is deleted.

Called by log_directories.py at the start. The broker serves all other replicas (rule H5). A folder without a valid copy
of `partition.metadata` is matched by its name: if a topic of that name has a replica here, the folder counts as that
replica, damaged. The name alone is no reason to serve the folder, which may belong to an older topic. An administrator
may write the topic id again (docs/guide/operations.md).

If other replicas are left, such a replica leaves the in-sync and eligible sets when the broker registers; once another
one leads, its folder is set aside (storage/directory/strays.py), and it is fetched anew. The last replica stays in its
sets, and is offline until a later start can open it; if only room was missing, reopening.py opens it while the broker
runs.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Container, Sequence
from posixpath import join
from typing import TYPE_CHECKING, NamedTuple

from ottla.kernel.ids import TopicPartition
from ottla.kernel.seams import FailedSync
from ottla.storage import recovery
from ottla.storage.directory.found import FoundPartition
from ottla.storage.log import FULL_DISK
from ottla.storage.values import NO_RIGHTS

if TYPE_CHECKING:
    from ottla.broker.environment import Environment
    from ottla.broker.replicas.misnamed import Misnamed
    from ottla.broker.replicas.twins import Twins
    from ottla.metadata.partition_state import PartitionState
    from ottla.metadata.state import Topic
    from ottla.storage.directory.directory import LogDirectory

log = logging.getLogger("ottla.replicas")
Key = tuple[bytes, int]
NO_FILES = (errno.EMFILE, errno.ENFILE)
"""Errors of a process that has too many files open."""
_FIXED = (errno.EBUSY, *NO_RIGHTS)
"""Errors of renaming a folder that this process may not write, or on which a file system is mounted."""


class Unreadable(NamedTuple):
    """The folder of a replica that could not be opened."""

    topic: str
    found: FoundPartition
    directory: LogDirectory
    reason: str
    may_pass: bool = False
    """True if the reason may pass by itself: the disk was full, or a read failed."""


class UnreadableReplicas:
    """The unreadable replicas of this broker, by topic id and partition; one may lie in several log directories."""

    def __init__(self, around: Environment) -> None:
        self._around = around
        self.by_key: dict[Key, list[Unreadable]] = {}
        self._fixed: dict[Key, None] = {}
        """Those of which a folder could not be set aside."""

    # --- at the start ---

    def recover_all(
        self,
        directory: LogDirectory,
        misnamed: Misnamed,
        twins: Twins,
        *,
        topic_of: Callable[[FoundPartition], Topic | None],
        recover: Callable[[LogDirectory, Topic, FoundPartition], None],
    ) -> None:
        """Open a directory's logs. Folders that never held a record are deleted; others that cannot be opened stay."""
        unmade: list[FoundPartition] = []
        strays: list[tuple[FoundPartition, str]] = []
        with directory.disk.gathered(directory.path):
            for found in directory.found:
                topic = topic_of(found) or self._claimed(found)
                if found.path in twins.unmade or self._is_of_no_account(directory, found):
                    unmade.append(found)
                elif found.path in misnamed.kept:
                    kept = misnamed.kept[found.path]
                    self.add(directory, kept.topic, kept.found, kept.reason)
                elif reason := misnamed.strays.get(found.path) or twins.older.get(found.path):
                    strays.append((found, reason))
                elif topic is None:
                    strays.append((found, found.fault or "its topic id is not known, or it is placed elsewhere"))
                elif fault := found.fault or twins.undecided.get(found.path):
                    self.add(directory, topic, found, fault)
                else:
                    self._recover_or_leave(directory, topic, found, recover)
            self.set_aside(directory, strays)
        for found in unmade:
            log.warning("%s was begun, and never held a record: it is deleted", found.path)
        if unmade:
            directory.discard(unmade)

    def _recover_or_leave(
        self,
        directory: LogDirectory,
        topic: Topic,
        found: FoundPartition,
        recover: Callable[[LogDirectory, Topic, FoundPartition], None],
    ) -> None:
        try:
            recover(directory, topic, found)
        except recovery.CANNOT_OPEN as error:
            if costs_the_directory(found, error):
                raise
            may_pass = isinstance(error, OSError) and error.errno in (*FULL_DISK, errno.EIO)
            self.add(directory, topic, found, recovery.sentence(error), may_pass=may_pass)

    def set_aside(self, directory: LogDirectory, strays: Sequence[tuple[FoundPartition, str]]) -> None:
        """Rename strays, and log the reason of each."""
        for found, reason in strays:
            log.warning("%s is set aside, with all its records: %s", found.path, reason)
        if strays:
            directory.set_strays_aside(strays, wall_ms=self._around.clock.wall_ms())

    def _claimed(self, found: FoundPartition) -> Topic | None:
        """The topic whose replica a folder without a topic id may be, by its name."""
        topic = self._around.metadata.topic(found.topic) if found.topic_id is None else None
        if topic is None or found.partition >= len(topic.partitions):
            return None
        return topic if self._around.broker in topic.partitions[found.partition].replicas else None

    def _is_of_no_account(self, directory: LogDirectory, found: FoundPartition) -> bool:
        """True if a crash interrupted its creation: it has no topic id and no record, and no checkpoint names one."""
        place = TopicPartition(found.topic, found.partition)
        if found.topic_id is not None or any(offsets.get(place) for _, offsets in directory.offsets.by_name()):
            return False
        try:
            return recovery.never_held(directory.disk, found.path)
        except OSError:
            return False

    def add(
        self, directory: LogDirectory, topic: Topic, found: FoundPartition, reason: str, *, may_pass: bool = False
    ) -> None:
        """Note an unreadable replica, which stays as it is and is not served."""
        reason += _refused_offsets(directory, TopicPartition(found.topic, found.partition))
        one = Unreadable(topic.name, found, directory, reason, may_pass)
        self.by_key.setdefault((topic.topic_id, found.partition), []).append(one)
        directory.unopened = True
        log.warning("%s-%d in %s cannot be opened and is offline: %s", topic.name, found.partition, found.path, reason)

    def miss(self, directory: LogDirectory, opened: Container[Key]) -> None:
        """Note replicas whose folder is gone although it held records.

        A replica that still counts stays missing: a new, empty one could reuse its offsets if no other replica is left.
        """
        missed: list[TopicPartition] = []
        for place, held in directory.gone.items():
            topic, here = self._around.metadata.topic(place.topic), self._around.broker
            if topic is None or place.partition >= len(topic.partitions):
                continue
            state, key = topic.partitions[place.partition], (bytes(topic.topic_id), place.partition)
            if key in self.by_key:
                missed.append(place)  # its checkpoints are kept, for a folder that is put back
                continue
            if here not in state.replicas or key in opened:
                continue
            path = join(directory.path, str(place))
            if here not in (*state.in_sync, *state.eligible):
                log.warning("%s is missing, and it held offsets up to %d: it is fetched anew", path, held.stop - 1)
            else:
                reason = f"its folder is missing, and it held offsets up to {held.stop - 1}"
                self.add(directory, topic, FoundPartition(*place, topic.topic_id, path), reason)
                missed.append(place)
        directory.forget_gone(missed)

    def drop(self, key: Key) -> None:
        """Set a folder aside whose replica was opened in another directory; if it fails, the next start tries again."""
        try:
            self._give_up(key, "the replica is in another log directory")
        except OSError as error:
            log.warning("%s cannot be set aside, and stays: %s", self.by_key[key][-1].found.path, error)

    def may_be_the_replica(self, key: Key, opened: FoundPartition, directory: LogDirectory) -> bool:
        """True if a folder that could not be opened is one half of a move, and the other half was opened."""
        return any(
            one.found.beside == directory.directory_id or opened.beside == one.directory.directory_id
            for one in self.by_key[key]
        )

    def are_the_last(self) -> list[Key]:
        """Unreadable replicas that are the last to count for their partition: they stay, offline."""
        return [key for key in sorted(self.by_key) if not self._others_count(key)]

    def made_offline(self) -> list[Key]:
        """Those that are offline by this broker's registration: other replicas may have left their sets before it."""
        states = {key: self._around.metadata.partition(*key) for key in sorted(self.by_key)}
        return [key for key, state in states.items() if state is not None and self._around.broker in state.offline]

    def _others_count(self, key: Key) -> bool:
        state, here = self._around.metadata.partition(*key), self._around.broker
        return state is None or any(one != here for one in (*state.in_sync, *state.eligible))

    # --- while it runs ---

    def holds_back(self, key: Key, state: PartitionState) -> bool:
        """True if a replica must not be made anew yet, since these files may be needed; else they are set aside."""
        here = self._around.broker
        if key not in self.by_key:
            return False
        if not state.has_leader or here in (state.leader, *state.in_sync, *state.eligible) or key in self._fixed:
            return True
        try:
            self._give_up(key, f"it is fetched anew from broker {state.leader}")
        except OSError as error:
            one = self.by_key[key][-1]
            if error.errno not in _FIXED or not one.directory.disk.exists(one.found.path):
                raise
            self._fixed[key] = None
            log.warning("%s cannot be set aside, and stays offline until the next start: %s", one.found.path, error)
            return True
        return False

    def to_try_again(self) -> list[Key]:
        """Replicas that may be opened later, and that lie in one log directory."""
        return [key for key, found in self.by_key.items() if len(found) == 1 and found[0].may_pass]

    def give_up_opening(self, key: Key, reason: str) -> None:
        """Keep a replica offline until the next start, with this reason."""
        one = self.by_key[key][0]
        self.by_key[key] = [one._replace(reason=reason, may_pass=False)]
        log.warning("%s stays offline until the next start: %s", one.found.path, reason)

    def opened(self, key: Key) -> None:
        """Forget a replica that is open now."""
        (one,) = self.by_key.pop(key)
        self._see_whether_all_are_open(one.directory)

    def _see_whether_all_are_open(self, directory: LogDirectory) -> None:
        """Let a stop mark a directory as clean again, once all of its logs are open or set aside."""
        directory.unopened = any(one.directory is directory for found in self.by_key.values() for one in found)

    def make_way(self, directory: LogDirectory, topic: Topic, index: int) -> None:
        """Set an unreadable folder aside for another topic's partition of the same name."""
        path = join(directory.path, f"{topic.name}-{index}")
        for key in [key for key, found in self.by_key.items() if any(one.found.path == path for one in found)]:
            self._give_up(key, "its name belongs to another topic now")

    def _give_up(self, key: Key, why: str) -> None:
        """Set the replica's folders aside, each once; those in a failed directory are left to a later start."""
        found = self.by_key[key]
        directories = [one.directory for one in found]
        while found:
            one = found[-1]
            reason = f"{one.reason}; {why}"
            if one.directory.failed is not None:
                log.warning("%s stays as it is, as its log directory has failed: %s", one.found.path, reason)
            elif one.directory.disk.exists(one.found.path):
                self.set_aside(one.directory, [(one.found, reason)])
            else:
                log.warning("%s is made anew: %s", one.found.path, reason)
            found.pop()
        del self.by_key[key]
        for directory in directories:
            self._see_whether_all_are_open(directory)


def costs_the_directory(found: FoundPartition, error: Exception) -> bool:
    """True if an error fails the whole directory, not just one partition's files.

    A failed sync fails the directory, as it may have dropped pages of any file (rule B3). A full disk does not.
    """
    if not isinstance(error, OSError) or error.errno in FULL_DISK:
        return False
    inside = error.filename is None or str(error.filename).startswith(found.path)
    return isinstance(error, FailedSync) or error.errno in NO_FILES or not inside


def _refused_offsets(directory: LogDirectory, place: TopicPartition) -> str:
    """The offsets that are not served, as far as the checkpoints of the directory know."""
    held = directory.offsets.held(place)
    return f"; its offsets {held.start} to {held.stop - 1} are refused" if held else ""
