"""The incarnation of a log directory: which run of its broker wrote to it last, and what of the metadata it has seen.

broker/control/incarnations.py compares it with what the metadata store knows (rule H2). Two files of one sector each
hold the same text, written in place one after the other: a full disk does not keep a broker from starting, a torn
write or one bad file leaves the other.
"""

from __future__ import annotations

import json
import posixpath
from typing import NamedTuple

from ottla.kernel.seams import Disk, OpenFile
from ottla.records.checksum import crc32c
from ottla.storage.checkpoint import (
    BadCheckpoint,
    clear_the_way,
    format_properties,
    mark_failed_sync,
    parse_properties,
    read_small,
    replace_file,
)
from ottla.storage.values import FULL_DISK

FILES = ("incarnation", "incarnation.second")
"""ottla's own, in a log directory."""
NO_EPOCH = -1
_SIZE = 512
_ATTEMPTS = 8
"""The most unconfirmed registrations that are noted; each later one drops the oldest."""


class DirectoryIncarnation(NamedTuple):
    """One log directory's own account."""

    incarnation: str = ""
    """The random id under which its broker registered last, as far as was noted here."""
    broker_epoch: int = NO_EPOCH
    """The epoch that this registration was given."""
    closed: bool = False
    """True once that run has begun to close the directory: it appends nothing more. Not a proof that all is synced."""
    attempts: tuple[str, ...] = ()
    """Registrations begun since; whether they succeeded is not noted."""
    metadata_version: int = 0
    """The highest version of the metadata that was applied when something was noted here."""
    metadata_crc: int | None = None
    """The checksum of the entry at that version, where it was known."""
    accepts_store: bool = False
    """An administrator has said that the store counts as it is, though it is older."""
    number: int = 0
    """Grows by one with each writing."""

    def attempted(self, incarnation: str) -> DirectoryIncarnation:
        """A registration is about to be sent."""
        others = [one for one in self.attempts if one != incarnation]
        return self._replace(attempts=(*others, incarnation)[-_ATTEMPTS:])

    def registered(self, incarnation: str, epoch: int) -> DirectoryIncarnation:
        """A registration has succeeded: from now on this incarnation owns the directory."""
        return self._replace(
            incarnation=incarnation, broker_epoch=epoch, closed=False, attempts=(), accepts_store=False
        )


class Read(NamedTuple):
    """The incarnation that the two files tell."""

    incarnation: DirectoryIncarnation | None
    """None if neither file can be read."""
    present: bool
    """True if either file exists: a directory from before incarnations has none."""
    faults: tuple[str, ...]
    """Faults of one file or of both."""


class Witness:
    """The account of one open log directory."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self.found = Read(None, False, ())
        """The file as it was before this run."""
        self.on_disk: DirectoryIncarnation | None = None
        """The content on disk now; None if nothing could be written."""
        self.faults: list[str] = []
        """Faults that are still to be logged as warnings."""

    def begin(self, registering: str, marker: str) -> bool:
        """Note that a run begins, which will register as `registering`; whether the last one ended cleanly.

        The mark of a clean stop counts only if it names the incarnation that is noted here (KIP-966's broker epoch): a
        mark that was copied or left behind is not a proof. The new run is noted before the mark is removed.
        """
        self.found = found = read_incarnation(self._disk, self._directory)
        self.faults += found.faults if found.present else ()
        noted = found.incarnation or DirectoryIncarnation()
        clean = self._disk.exists(marker)
        if clean and (fault := _why_no_proof(self._disk, marker, noted.broker_epoch)) is not None:
            self.faults.append(f"{fault}: it is not a proof of a clean stop, and all logs are checked")
            clear_the_way(self._disk, marker)
            self._disk.remove(marker)
            clean = False
        elif not clean and noted.closed and not noted.attempts:
            self.faults.append(f"{marker} is missing, though the last run has stopped: all logs are checked")
        noted = noted._replace(closed=noted.closed or clean)
        if registering:
            self._write(noted.attempted(registering))
        elif found.incarnation is not None and noted != found.incarnation:
            self._write(noted)
        return clean

    def registered(self, incarnation: str, epoch: int, *, version: int, crc: int | None) -> None:
        """The broker has registered: the directory is of this incarnation before anything is led or fetched."""
        if self.on_disk is not None:
            self._write(
                self.on_disk.registered(incarnation, epoch)._replace(metadata_version=version, metadata_crc=crc)
            )

    def seen(self, version: int, crc: int | None) -> None:
        """Note the applied metadata version: a store that ends before it is an older one."""
        if self.on_disk is not None and version > self.on_disk.metadata_version:
            self._write(self.on_disk._replace(metadata_version=version, metadata_crc=crc))

    def closing(self) -> None:
        """Note that nothing is appended any more: the loss of a clean-stop mark makes no directory older then."""
        if self.on_disk is not None:
            self._write(self.on_disk._replace(closed=True))

    def _write(self, content: DirectoryIncarnation) -> None:
        """Write the account. On a full disk the old content stays; a directory without any stays without."""
        try:
            self.on_disk = write_incarnation(self._disk, self._directory, content)
        except OSError as fault:
            if fault.errno not in FULL_DISK:
                mark_failed_sync(self._disk, self._directory)
                raise
            self.faults.append(f"no room to note down the incarnation of {self._directory}")


def _why_no_proof(disk: Disk, marker: str, noted: int) -> str | None:
    """The fault of `.kafka_cleanshutdown`; None where it shows that the run of epoch `noted` ended cleanly.

    If no epoch is noted, a mark of any epoch counts, and so does an empty one, which older releases of Apache Kafka
    leave.
    """
    if disk.is_directory(marker):
        return f"{marker} is a directory, renamed now"
    try:
        body = read_small(disk, marker)
    except BadCheckpoint as bad:
        return str(bad)
    epoch = _marked_epoch(body or b"")
    if epoch is None and (body or noted != NO_EPOCH):
        return f"{marker} is damaged"
    if noted not in (NO_EPOCH, epoch):
        return f"{marker} is of broker epoch {epoch}, not of {noted}"
    return None


def _marked_epoch(body: bytes) -> int | None:
    """The broker epoch in the mark of a clean stop; None where anything else stands there."""
    try:
        values = json.loads(body)
        epoch = int(values.pop("brokerEpoch"))
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    return epoch if values == {"version": 0} else None


def read_incarnation(disk: Disk, directory: str) -> Read:
    """The newer of the two files. An unreadable file counts as damaged; OSError if no descriptor is left to open it."""
    found: dict[str, DirectoryIncarnation] = {}
    faults: list[str] = []
    missing: list[str] = []
    for name in FILES:
        path = posixpath.join(directory, name)
        if not disk.exists(path):
            missing.append(path)
        elif disk.is_directory(path):
            faults.append(f"{path} is a directory")
        else:
            try:
                one = _decode(read_small(disk, path) or b"")
            except BadCheckpoint as bad:
                faults.append(str(bad))
                continue
            if one is None:
                faults.append(f"{path} does not match its checksum")
            else:
                found[path] = one
    if len(missing) == 1:
        faults.append(f"{missing[0]} is missing")
    newest = max(found.values(), key=lambda one: one.number, default=None)
    faults += _why_older(*found.items()) if len(found) == len(FILES) else ()
    return Read(newest, len(missing) < len(FILES), tuple(faults))


def _why_older(first: tuple[str, DirectoryIncarnation], second: tuple[str, DirectoryIncarnation]) -> tuple[str, ...]:
    """A warning if one file is older than a crash explains; a crash may leave the first file one writing ahead."""
    ahead = first[1].number - second[1].number
    if 0 <= ahead <= 1:
        return ()
    older, newer = (second[0], first[0]) if ahead > 0 else (first[0], second[0])
    return (f"{older} is older than {newer}, which is taken",)


def write_incarnation(disk: Disk, directory: str, content: DirectoryIncarnation) -> DirectoryIncarnation:
    """Write both files, one after the other; return the incarnation as it was written."""
    content = content._replace(number=content.number + 1)
    for name in FILES:
        _write(disk, posixpath.join(directory, name), _encode(content))
    return content


def _write(disk: Disk, path: str, body: bytes) -> None:
    clear_the_way(disk, path)
    if disk.exists(path) and disk.file_size(path) == len(body) and (file := _opened(disk, path)) is not None:
        try:
            file.write_at(0, [body])
            file.sync(at_once=True)
        finally:
            file.release()
        return
    replace_file(disk, path, body, at_once=True)


def _opened(disk: Disk, path: str) -> OpenFile | None:
    """Open a file; None if this process may not, since another file can be put in its place."""
    try:
        return disk.open(path)
    except PermissionError:
        return None


def _encode(content: DirectoryIncarnation) -> bytes:
    text = format_properties(
        {
            "version": "0",
            "number": str(content.number),
            "incarnation": content.incarnation,
            "broker.epoch": str(content.broker_epoch),
            "closed": str(int(content.closed)),
            "attempts": ",".join(content.attempts),
            "metadata.version": str(content.metadata_version),
            "metadata.crc": "" if content.metadata_crc is None else str(content.metadata_crc),
            "accepts.store": str(int(content.accepts_store)),
        }
    )
    end = b"crc=00000000\n"
    padded = text + b"#" * (_SIZE - len(text) - len(end) - 1) + b"\n"
    assert len(padded) + len(end) == _SIZE, "the text of an incarnation fits"
    return padded + b"crc=%08x\n" % crc32c(padded)


def _decode(body: bytes) -> DirectoryIncarnation | None:
    if len(body) != _SIZE:
        return None
    padded, end = body[:-13], body[-13:]
    if end != b"crc=%08x\n" % crc32c(padded):
        return None
    values = parse_properties(padded.decode("ascii"))
    crc = values["metadata.crc"]
    return DirectoryIncarnation(
        incarnation=values["incarnation"],
        broker_epoch=int(values["broker.epoch"]),
        closed=values["closed"] == "1",
        attempts=tuple(one for one in values["attempts"].split(",") if one),
        metadata_version=int(values["metadata.version"]),
        metadata_crc=int(crc) if crc else None,
        accepts_store=values["accepts.store"] == "1",
        number=int(values["number"]),
    )
