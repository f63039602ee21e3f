"""Compares the incarnation of each log directory with what the metadata store knows (rule H2).

The files are those of storage/directory/incarnation.py and age.py. A directory that is older than the store expects
(restored from a copy, or rolled back) gives no receipt and leads nothing: its replicas leave the in-sync sets with the
registration (cluster/partitions.py). A store that is older than a directory is refused: topics made since would become
strays, and replicas removed since would count again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from ottla.cluster.broker_commands import AcceptedStore, RolledBack
from ottla.kernel.ids import LeaderEpoch, TopicId, topic_id_text
from ottla.metadata.broker_state import BrokerState, HeldDirectory
from ottla.storage.directory.directory import LogDirectory
from ottla.storage.directory.incarnation import DirectoryIncarnation, read_incarnation
from ottla.storage.directory.ownership import DirectoryRefused, refuse_of_another

if TYPE_CHECKING:
    from ottla.broker.environment import Environment
    from ottla.kernel.seams import Disk
    from ottla.storage.log import Log

log = logging.getLogger("ottla.incarnations")
_CLOSED = "+"
"""Suffix of an incarnation that has closed its directory."""
_NAMED = 100
"""The most partitions named in one log line."""


class IncarnationDirectories(Protocol):
    """The log directories of this broker: replicas/log_directories.py."""

    @property
    def online(self) -> Sequence[LogDirectory]: ...

    @property
    def needed(self) -> str | None:
        """The directory that holds the metadata store, if one does."""

    @property
    def failed(self) -> Mapping[str, str]:
        """Paths of failed directories, each with the reason."""

    @property
    def recovered(self) -> Mapping[tuple[bytes, int], Log]:
        """Opened logs that no partition has taken over yet."""

    @property
    def new_ids(self) -> tuple[str, ...]:
        """Ids for directories that are made only once the broker has registered."""

    def may_go_on_without(self, directory: LogDirectory | None) -> bool:
        """True if the broker can go on after this directory has failed."""


class Incarnations:
    """The incarnations of one broker's log directories."""

    def __init__(self, around: Environment, directories: IncarnationDirectories) -> None:
        self._around = around
        self._directories = directories
        self.of_this_run = topic_id_text(around.follow.incarnation)
        """The incarnation that this run began."""
        self.older: dict[str, RolledBack] = {}
        """By path, directories that are older than their last known state; their replicas are added later."""
        self.ages: Mapping[str, int] = {}
        """The ages of directories that the store knows, by their ids (ages.py); read before they are opened."""

    # --- before the registration ---

    def look_at(self, directory: LogDirectory) -> None:
        """Compare a directory that was just opened with what the store knows."""
        for fault in directory.witness.faults:
            log.warning("%s", fault)
        directory.witness.faults.clear()
        found, expected = directory.witness.found, self._expected(directory.directory_id)
        if expected is None:
            if not found.present and (directory.found or directory.clean):
                log.info("%s was written before incarnations were noted: it is taken as it is, once", directory.path)
            return
        registered = expected.incarnation == self._around.follow.incarnation  # not made yet, in a new cluster
        if registered:
            return
        if not is_older(found.incarnation, expected, closed=directory.clean):
            self._look_at_age(directory, expected)
            return
        names = found_in(found.incarnation, closed=directory.clean, age=directory.age.found)
        self.older[directory.path] = RolledBack((), names, name(expected))
        if found.incarnation is None:
            why = "its files 'incarnation' are missing or damaged, so its age is unknown"
        else:
            why = f"its files are of broker epoch {found.incarnation.broker_epoch}, and it was used since"
        log.warning(
            "the log directory %s is older than what the cluster knows of it (%s): restored from a copy, or rolled "
            "back. None of its replicas leads or counts before it has fetched what others hold. If that was a "
            "mistake, stop this broker and put the newer directory back",
            directory.path, why,
        )  # fmt: skip

    def _look_at_age(self, directory: LogDirectory, expected: HeldDirectory) -> None:
        """Compare the age of a directory whose incarnation is the last one: it may be a copy from the same run."""
        stored, age, noted = (
            self.ages.get(directory.directory_id, 0),
            directory.age,
            directory.witness.found.incarnation,
        )
        if age.fault or (age.found is None and stored):
            log.warning("%s: a copy from the broker's last run could not be told from the directory itself",
                        age.fault or f"{directory.path} lacks its file 'age'")  # fmt: skip
        if age.found is None or age.found >= stored or (noted is not None and noted.accepts_store):
            return
        awaited = f"{name(expected)}:{stored}"
        self.older[directory.path] = RolledBack((), found_in(noted, closed=directory.clean, age=age.found), awaited)
        log.warning(
            "the log directory %s is older than what the cluster knows of it (it has age %d, and its broker's last run "
            "had come to age %d): restored from a snapshot of that run, or the whole machine was put back. None of its "
            "replicas leads or counts before it has fetched what others hold. If that was a mistake, stop this broker "
            "and put the newer directory back",
            directory.path, age.found, stored,
        )  # fmt: skip

    def is_older(self, directory: LogDirectory) -> bool:
        return directory.path in self.older

    def was_away(self, directory: LogDirectory) -> bool:
        """True if the broker last ran without this directory, so that its replicas may be older than elsewhere."""
        me, expected = self._around.metadata.brokers.get(self._around.broker), self._expected(directory.directory_id)
        return me is not None and (expected is None or expected.incarnation != me.incarnation)

    def held(self) -> tuple[HeldDirectory, ...]:
        """Directories for the registration: those that have noted this incarnation, and failed ones as last known."""
        directories, follow = self._directories, self._around.follow
        noted = [one.directory_id for one in directories.online if one.witness.on_disk is not None]
        here = tuple(HeldDirectory(one, follow.incarnation) for one in noted or directories.new_ids)
        before = self._around.metadata.brokers.get(self._around.broker)
        if before is None or not directories.failed:
            return here
        opened = {one.directory_id for one in directories.online}
        return (*here, *(one for one in before.held if one.directory_id not in opened))

    def accepted_store(self) -> AcceptedStore | None:
        """The older store that an administrator has accepted for one of the directories, or None."""
        directories = self._directories
        if not any(one.witness.on_disk is not None and one.witness.on_disk.accepts_store for one in directories.online):
            return None
        log.warning("the metadata store is taken as it is, though it is older than the log directories: topics made "
                    "since are strays, and what was acknowledged since may be cut")  # fmt: skip
        newest = [
            (TopicId(topic_id), index, LeaderEpoch(held.latest_epoch))
            for (topic_id, index), held in sorted(directories.recovered.items())
        ]
        return AcceptedStore(tuple(newest))

    def _expected(self, directory_id: str) -> HeldDirectory | None:
        me = self._around.metadata.brokers.get(self._around.broker)
        return None if me is None else next((one for one in me.held if one.directory_id == directory_id), None)

    # --- once registered ---

    def registered(self, take_offline: Callable[[LogDirectory, OSError], None]) -> None:
        """Write the incarnation to each directory before leading or fetching; raise OSError if a needed one fails.

        `take_offline` is called with a failed directory that the broker can go on without.
        """
        follow, directories = self._around.follow, self._directories
        version, crc = self._around.metadata.version, follow.entry_crc()
        for directory in list(directories.online):
            try:
                directory.witness.registered(self.of_this_run, follow.broker_epoch, version=version, crc=crc)
                directory.age.begin(self.ages.get(directory.directory_id, 0))
            except OSError as error:
                if not directories.may_go_on_without(directory):
                    raise
                take_offline(directory, error)
        self._tell_waiting()

    def note_metadata(self, directory: LogDirectory, *, online: bool = True) -> None:
        """Write the applied metadata version: before a replica is made, from time to time, and at the end."""
        if online:
            directory.witness.seen(self._around.metadata.version, self._around.follow.entry_crc())

    def _tell_waiting(self) -> None:
        around = self._around
        waiting = [
            (topic.name, state.partition)
            for topic in around.metadata.visible_topics()
            for state in topic.partitions
            if state.awaited and state.last_known == (around.broker,)
        ]
        if not waiting:
            return
        topic, partition = waiting[0]
        log.warning(
            "%d partitions have no leader and wait for an administrator, as their last replica came back with an older "
            "log directory: %s%s. Stop this broker, put the newer directory back and start again; or accept the older "
            "one and lose what came after it, partition by partition: ottla kafka-leader-election --bootstrap-server "
            "HOST:PORT --election-type unclean --topic %s --partition %d",
            len(waiting), ", ".join(f"{each}-{index}" for each, index in waiting[:_NAMED]),
            " and others" if len(waiting) > _NAMED else "", topic, partition,
        )  # fmt: skip


def is_older(found: DirectoryIncarnation | None, expected: HeldDirectory, *, closed: bool) -> bool:
    """True if a directory's state is older than the last known one.

    A registration that was begun and not noted as successful has written nothing. `closed`: it has the mark of a clean
    stop.
    """
    if found is None:
        return True
    if found.accepts_store:
        return False
    if topic_id_text(expected.incarnation) == found.incarnation:
        return expected.closed and not (found.closed or closed)
    return expected.closed or topic_id_text(expected.incarnation) not in found.attempts


def name(expected: HeldDirectory) -> str:
    """The name under which partitions await a directory."""
    return topic_id_text(expected.incarnation) + (_CLOSED if expected.closed else "")


def found_in(found: DirectoryIncarnation | None, *, closed: bool, age: int | None = None) -> tuple[str, ...]:
    """The names by which a directory may be awaited. A crash may leave its age one ahead of the store's."""
    if found is None or not found.incarnation:
        return ()
    runs = (found.incarnation, *((found.incarnation + _CLOSED,) if found.closed or closed else ()))
    aged = tuple(f"{run}:{each}" for run in runs for each in (age, age - 1)) if age else ()
    return (*runs, *found.attempts, *aged)


async def refuse_older_store(around: Environment, disk: Disk, paths: Sequence[str]) -> None:
    """Raise DirectoryRefused if a log directory has seen more metadata than the store has, or another history."""
    me = around.metadata.brokers.get(around.broker)
    for path in paths:
        try:
            found = read_incarnation(disk, path).incarnation
        except OSError:
            continue  # opening the directory will report it
        if found is None or found.accepts_store:
            continue
        crc = None
        if found.metadata_crc is not None and found.metadata_version <= around.metadata.version:
            crc = await around.follow.entry_crc_at(found.metadata_version)
        why = why_older(found, me, around.metadata.version, crc)
        if why is not None:
            with suppress(OSError):  # another broker's directory has seen other things, rightly
                refuse_of_another(disk, path, around.metadata.cluster_id, around.broker)
            raise DirectoryRefused(
                f"the metadata store is older than the log directory {path}, or another one: {why}. Was it restored "
                "from a backup? Topics made since would be strays, and replicas would count that were dropped since. "
                "Put the newer store back and start again. If it is gone for good, have every directory of every "
                f"broker take the store as it is: ottla log accept-store {path}"
            )


def why_older(found: DirectoryIncarnation, me: BrokerState | None, version: int, crc: int | None) -> str | None:
    """The reason why this store cannot be the one that the directory was used with; None if it may be.

    `crc`: the checksum of the store's entry at the version noted in the directory, if the entry is still there.
    """
    if found.metadata_version > version:
        return f"the store ends at version {version}, and the directory has seen version {found.metadata_version}"
    if me is not None and me.epoch < found.broker_epoch:
        return f"the store knows broker epoch {me.epoch}, and the directory has epoch {found.broker_epoch}"
    if crc is not None and found.metadata_crc is not None and crc != found.metadata_crc:
        return f"another entry stands at version {found.metadata_version} than the one that the directory has seen"
    return None
