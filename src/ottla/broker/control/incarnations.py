"""Compares the incarnation of each log directory with what the metadata store knows (rule H2).

The files are those of storage/directory/incarnation.py. A directory that is older than the store knows it, restored
from a copy or rolled back, gives no receipt and leads nothing: its replicas leave the sets with the registration
(cluster/partitions.py). A store that is older than a directory is refused: topics made since would be strays, and
replicas would count that were dropped since.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.cluster.commands import AcceptedStore, RolledBack
from ottla.kernel.ids import LeaderEpoch, TopicId, topic_id_text
from ottla.metadata.state import BrokerState, HeldDirectory
from ottla.storage.directory.directory import LogDirectory
from ottla.storage.directory.incarnation import Incarnation, read_incarnation
from ottla.storage.directory.ownership import DirectoryRefused

if TYPE_CHECKING:
    from ottla.broker.node import Node

log = logging.getLogger("ottla.incarnations")
_CLOSED = "+"
"""Behind an incarnation that has closed its directory."""
_NAMED = 100
"""Partitions in one line of the log."""


class Incarnations:
    """Those of the log directories of one broker."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.own = topic_id_text(node.follow.incarnation)
        """The one that is about to register, or has."""
        self.older: dict[str, RolledBack] = {}
        """By path, directories that are older than what was last known of them; their replicas are not named yet."""

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
        registered = expected.incarnation == self._node.follow.incarnation  # before it was made, in a new cluster
        if registered or not is_older(found.incarnation, expected, closed=directory.clean):
            return
        self.older[directory.path] = RolledBack((), found_in(found.incarnation, closed=directory.clean), name(expected))
        if found.incarnation is None:
            why = "its files 'incarnation' are missing or damaged, so that nobody can say of when it is"
        else:
            why = f"it is of broker epoch {found.incarnation.broker_epoch}, and was used after that"
        log.warning(
            "the log directory %s is older than what the cluster knows of it (%s): restored from a copy, or rolled "
            "back. None of its replicas leads or counts before it has fetched what others hold. If that was a "
            "mistake, stop this broker and put the newer directory back",
            directory.path, why,
        )  # fmt: skip

    def is_older(self, directory: LogDirectory) -> bool:
        return directory.path in self.older

    def held(self) -> tuple[HeldDirectory, ...]:
        """Directories for the registration: those that have noted this incarnation, and failed ones as they were."""
        directories, follow = self._node.replicas.directories, self._node.follow
        noted = [one.directory_id for one in directories.online if one.witness.said is not None]
        here = tuple(HeldDirectory(one, follow.incarnation) for one in noted or directories.new_ids)
        before = self._node.metadata.brokers.get(self._node.broker)
        if before is None or not directories.failed:
            return here
        opened = {one.directory_id for one in directories.online}
        return (*here, *(one for one in before.held if one.directory_id not in opened))

    def accepted_store(self) -> AcceptedStore | None:
        """Where an administrator has had one of the directories take an older store as it is."""
        directories = self._node.replicas.directories
        if not any(one.witness.said is not None and one.witness.said.accepts_store for one in directories.online):
            return None
        log.warning("the metadata store is taken as it is, though it is older than the log directories: topics made "
                    "since are strays, and what was acknowledged since may be cut")  # fmt: skip
        newest = [
            (TopicId(topic_id), index, LeaderEpoch(held.latest_epoch))
            for (topic_id, index), held in sorted(directories.recovered.items())
        ]
        return AcceptedStore(tuple(newest))

    def _expected(self, directory_id: str) -> HeldDirectory | None:
        me = self._node.metadata.brokers.get(self._node.broker)
        return None if me is None else next((one for one in me.held if one.directory_id == directory_id), None)

    # --- once registered ---

    def registered(self) -> None:
        """On disk in each directory before anything is led or fetched; OSError where the broker cannot go on so."""
        node, directories = self._node, self._node.replicas.directories
        version, crc = node.metadata.version, node.follow.entry_crc()
        for directory in list(directories.online):
            try:
                directory.witness.registered(self.own, node.follow.broker_epoch, version=version, crc=crc)
            except OSError as error:
                if not directories.may_go_on_without(directory):
                    raise
                node.replicas.take_offline(directory, error)
        self._tell_waiting()

    def note_metadata(self, directory: LogDirectory, *, online: bool = True) -> None:
        """How much of the metadata is applied: before a replica is made of it, now and then, and at the end."""
        if online:
            directory.witness.seen(self._node.metadata.version, self._node.follow.entry_crc())

    def _tell_waiting(self) -> None:
        node = self._node
        waiting = [
            (topic.name, state.partition)
            for topic in node.metadata.visible_topics()
            for state in topic.partitions
            if state.awaited and state.last_known == (node.broker,)
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


def is_older(found: Incarnation | None, expected: HeldDirectory, *, closed: bool) -> bool:
    """Whether a directory says less than what was last known of it.

    A registration that was begun and is not noted to have succeeded has written nothing. `closed`: it bears the mark of
    a clean stop.
    """
    if found is None:
        return True
    if found.accepts_store:
        return False
    if topic_id_text(expected.incarnation) == found.incarnation:
        return expected.closed and not (found.closed or closed)
    return expected.closed or topic_id_text(expected.incarnation) not in found.attempts


def name(expected: HeldDirectory) -> str:
    """As partitions await it."""
    return topic_id_text(expected.incarnation) + (_CLOSED if expected.closed else "")


def found_in(found: Incarnation | None, *, closed: bool) -> tuple[str, ...]:
    """The names by which a directory may be awaited."""
    if found is None or not found.incarnation:
        return ()
    ended = (found.incarnation + _CLOSED,) if found.closed or closed else ()
    return (found.incarnation, *ended, *found.attempts)


async def refuse_older_store(node: Node) -> None:
    """DirectoryRefused where a log directory has seen more of the metadata than the store has, or another history."""
    directories = node.replicas.directories
    me = node.metadata.brokers.get(node.broker)
    for path in directories.paths:
        try:
            found = read_incarnation(directories.disk, path).incarnation
        except OSError:
            continue  # opening it says so
        if found is None or found.accepts_store:
            continue
        crc = None
        if found.metadata_crc is not None and found.metadata_version <= node.metadata.version:
            crc = await node.follow.entry_crc_at(found.metadata_version)
        why = why_older(found, me, node.metadata.version, crc)
        if why is not None:
            raise DirectoryRefused(
                f"the metadata store is older than the log directory {path}, or another one: {why}. Was it restored "
                "from a backup? Topics made since would be strays, and replicas would count that were dropped since. "
                "Put the newer store back and start again. If it is gone for good, have every directory of every "
                f"broker take the store as it is: ottla log accept-store {path}"
            )


def why_older(found: Incarnation, me: BrokerState | None, version: int, crc: int | None) -> str | None:
    """Why a store of this version is not the one that the directory has seen; None where it may be.

    `crc`: of the store's entry at the version that the directory has noted, where it is still there.
    """
    if found.metadata_version > version:
        return f"the store ends at version {version}, and the directory has seen version {found.metadata_version}"
    if me is not None and me.epoch < found.broker_epoch:
        return f"the store knows broker epoch {me.epoch}, and the directory has epoch {found.broker_epoch}"
    if crc is not None and found.metadata_crc is not None and crc != found.metadata_crc:
        return f"another entry stands at version {found.metadata_version} than the one that the directory has seen"
    return None
