"""Opens a log directory as a start does, on a disk whose changes stay in memory, and collects what the start would log.

The cluster's metadata is not asked: a folder is taken for the partition that it says it is. So it is not seen here that
a whole directory is older than the metadata knows it, or of another cluster. The owner of the directory is taken for
the user that runs the broker: a file that this user may not write is one that a start cannot open.
"""

from __future__ import annotations

import logging
import posixpath
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from ottla.config.topic import TopicConfig
from ottla.kernel.ids import TopicPartition
from ottla.storage import checkpoint, recovery
from ottla.storage.directory.directory import LogDirectory
from ottla.storage.directory.found import FoundPartition
from ottla.storage.directory.incarnation import FILES
from ottla.storage.directory.ownership import DirectoryRefused
from ottla.storage.disk.overlay import OverlayDisk
from ottla.storage.values import Remark

MENDED = "start the broker, which mends it by itself, and look at the disk"
REFUSED = (
    "start the broker: with another replica these offsets are fetched from it. With one replica put this file back "
    "from a backup of this folder; without one only these offsets are refused, and all others are served"
)
BACK = "start the broker, and delete these records again (ottla kafka-delete-records) if they were deleted before"
OFFLINE = (
    "with other replicas start the broker: it is fetched anew. The only one: mend the file (its mode, or a backup of "
    "this folder), or keep a copy of the folder outside the log directories and move the file away; do not delete the "
    "folder"
)
NAMED = (
    "a start does not serve it under this name: it sets a copy aside if the folder of that partition is here. Keep "
    "copies outside the log directories; if it is the replica, give the folder its name back"
)
FETCHED = (
    "with other replicas start the broker: it is fetched anew. The only one: put the folder back where it was before "
    "the start, from another disk or from a backup"
)
_OURS = (
    checkpoint.META_PROPERTIES,
    checkpoint.CLEAN_SHUTDOWN,
    checkpoint.RECOVERY_POINT,
    checkpoint.LOG_START,
    checkpoint.REPLICATION,
    checkpoint.CLEANER,
    *FILES,
)
_DAY_MS = 86_400_000


class Said(NamedTuple):
    """One damage, and the remedy that loses least; "" if the text names the remedy already."""

    text: str
    remedy: str


def is_log_directory(names: list[str]) -> bool:
    """True if one of the names is ottla's own; any other file of a log directory may be missing."""
    return any(name.removesuffix(checkpoint.COPY) in _OURS for name in names)


def rehearse(path: str, *, wall_ms: int) -> list[Said]:
    """All that a start would say of a log directory that no broker uses."""
    found: list[Said] = []
    with _heard(found):
        directory = _opened(path, found)
        if directory is None:
            return found
        found += [Said(fault, MENDED) for fault in directory.witness.faults]
        misnamed = _misnamed(directory)
        for one in directory.found:
            if one.path in misnamed:
                found.append(Said(misnamed[one.path], NAMED))
            else:
                _open(directory, one, wall_ms, found)
        for place, held in directory.gone.items():
            folder = posixpath.join(path, str(place))
            found.append(Said(f"{folder} is missing, and it held offsets up to {held.stop - 1}", FETCHED))
    return found


def _opened(path: str, found: list[Said]) -> LogDirectory | None:
    """Open the directory as the broker that its meta.properties names."""
    disk, where = OverlayDisk(for_owner_of=path), posixpath.join(path, checkpoint.META_PROPERTIES)
    values: dict[str, str] = {}
    try:
        with suppress(OSError):  # opening the directory reports that
            values = checkpoint.parse_properties(disk.read(where).decode("utf-8", "replace"))
        disk.refuse_unwritable(path)
        owner = values.get("node.id", values.get("broker.id", ""))
        return LogDirectory.open(
            disk,
            path,
            cluster_id=values.get("cluster.id", ""),
            node_id=int(owner) if owner.isdecimal() else -1,
            new_directory_id="",
        )
    except (DirectoryRefused, OSError, checkpoint.BadCheckpoint) as fault:
        found.append(Said(f"a start would refuse {path}: {fault}", ""))
        return None


def _misnamed(directory: LogDirectory) -> dict[str, str]:
    """Folders whose name is not that of the partition that they hold, by path, with the reason.

    A topic has one name: of two names of one topic id the right one is in `partition.metadata`, or in the checkpoints.
    """
    misnamed: dict[str, str] = {}
    names: dict[bytes, set[str]] = {}
    known = {place.topic for place in directory.offsets.places()}
    unsaid: list[FoundPartition] = []
    for one in directory.found:
        if one.recorded is not None and one.recorded != (one.topic, one.partition):
            misnamed[one.path] = f"{one.path}: its {checkpoint.PARTITION_METADATA} says that it holds {one.recorded}"
        elif one.topic_id is not None:
            names.setdefault(one.topic_id, set()).add(one.topic)
            if one.recorded is None:
                unsaid.append(one)
            else:
                known.add(one.topic)
    for one in unsaid:
        others = names[one.topic_id or b""] - {one.topic}
        if others and (one.topic not in known or others & known):
            other = ", ".join(sorted(others))
            misnamed[one.path] = f"{one.path} has the same topic id as folders of {other}, and a topic has one name"
    return misnamed


def _open(directory: LogDirectory, one: FoundPartition, wall_ms: int, found: list[Said]) -> None:
    place = TopicPartition(one.topic, one.partition)
    fault, held = one.fault, directory.offsets.held(place)
    if one.topic_id is None and not held and recovery.never_held(directory.disk, one.path):
        return  # a crash interrupted the creation of this partition
    if not fault:
        try:
            opened = directory.open_log(
                one,
                config=TopicConfig(),
                wall_ms=wall_ms,
                producer_expiration_ms=_DAY_MS,
                on_synced=lambda offset: None,
            )
        except recovery.CANNOT_OPEN as error:
            fault = recovery.sentence(error)
        else:
            found += [_remarked(place, remark) for remark in opened.recovered.remarks]
            del directory.logs[place]  # thousands of open logs would need as many descriptors
            opened.close(clean=False)
            return
    refused = f"; its offsets {held.start} to {held.stop - 1} are refused" if held else ""
    found.append(Said(f"{place} in {one.path} cannot be opened and is offline: {fault}{refused}", OFFLINE))


def _remarked(place: TopicPartition, remark: Remark) -> Said:
    last = max(remark.first_offset, remark.next_offset - 1)
    where = f"{place}, offsets {remark.first_offset} to {last}, {remark.bytes} bytes"
    return Said(f"{where}: {remark.what}", _remedy(remark.what))


def _remedy(text: str) -> str:
    if text.endswith("deleted again"):
        return BACK
    return REFUSED if text.endswith("refused") else MENDED


class _Listener(logging.Handler):
    def __init__(self, found: list[Said]) -> None:
        super().__init__(logging.WARNING)
        self._found = found

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        self._found.append(Said(text, _remedy(text)))


@contextmanager
def _heard(found: list[Said]) -> Iterator[None]:
    """Collect the warnings of storage; they are not logged meanwhile."""
    log, listener = logging.getLogger("ottla.storage"), _Listener(found)
    propagated, log.propagate = log.propagate, False
    log.addHandler(listener)
    try:
        yield
    finally:
        log.removeHandler(listener)
        log.propagate = propagated
