"""Small files that are replaced as a whole: Kafka's offset checkpoints, properties, and the marks of a directory.

Temporary file, fsync, rename, fsync of the directory (rule B2): after a crash the old text is there or the new. Each
carries a checksum where Apache Kafka's readers do not look (rule H1), and the more important ones have a second copy;
directory/remembered.py chooses between the two.
"""

from __future__ import annotations

import contextlib
import errno
import posixpath
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ottla.kernel.ids import TopicId, TopicPartition, parse_topic_id, topic_id_text
from ottla.kernel.seams import Disk
from ottla.records.checksum import crc32c
from ottla.storage.values import parse_directory_name

RECOVERY_POINT = "recovery-point-offset-checkpoint"
LOG_START = "log-start-offset-checkpoint"
REPLICATION = "replication-offset-checkpoint"
CLEANER = "cleaner-offset-checkpoint"
LEADER_EPOCHS = "leader-epoch-checkpoint"
SCRUBBED = "scrub-offset-checkpoint"
"""ottla's own: how far the scrub's pass has come; empty between passes, and written when the last one ended."""
OFFSETS = (RECOVERY_POINT, LOG_START, REPLICATION, CLEANER, SCRUBBED)
"""The checkpoints that hold an offset for each partition."""
DAMAGE = "damage-checkpoint"
"""ottla's own, in a partition's directory."""
ABORTED = "aborted-transactions-checkpoint"
"""ottla's own, in a partition's directory: how much its `.txnindex` files hold (aborted_note.py)."""
PARTITION_METADATA = "partition.metadata"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
SYNC_FAILED = ".sync-failed"
"""ottla's own. Lasts in the page cache for as long as pages that a failed sync has dropped may last there."""
PAGE_CACHE = ".page-cache"
"""ottla's own: an id of the page cache that was last written through; if it changes, unsynced writes may be missing."""
META_PROPERTIES = "meta.properties"
TEMPORARY = ".tmp"
COPY = ".copy"
"""ottla's own: the suffix of a file's second copy."""
ASIDE = ".aside"
"""The suffix of something that was in the way of a file, or that a start could not explain (strays.py)."""
_NO_FILES = (errno.EMFILE, errno.ENFILE)
_CHECKSUM = "crc32c"
_PARTITION = "#partition: "
_BITS = 32
_DIGITS = str.maketrans(" \t", "01")
_LARGEST = (1 << 63) - 1


class BadCheckpoint(Exception):
    """The text of a checkpoint does not parse, or its checksum does not hold."""


def replace_file(disk: Disk, path: str, body: bytes, *, at_once: bool = False) -> None:
    """Replace the file at `path` durably.

    While syncs are gathered, `at_once` syncs now: else a crash may leave no file.
    """
    temporary = path + TEMPORARY
    disk.remove(temporary)
    file = disk.open(temporary, create=True)
    try:
        file.write_at(0, [body])
        file.sync(at_once=at_once)
    finally:
        file.release()
    disk.rename(temporary, path)
    disk.sync_directory(posixpath.dirname(path))


def mark_failed_sync(disk: Disk, path: str) -> None:
    """Leave a mark in a log directory.

    If there is no room for a new file, the note of the page cache is renamed to the mark. The mark is not synced: a
    reboot removes it together with the page cache, and with that the danger that it warns of. A file system that takes
    no rename either must be mounted anew before it is written to, which empties the page cache.
    """
    mark = posixpath.join(path, SYNC_FAILED)
    try:
        disk.open(mark, create=True).release()
    except OSError:
        with contextlib.suppress(OSError):
            disk.rename(posixpath.join(path, PAGE_CACHE), mark)


def put_copy(disk: Disk, path: str, body: bytes) -> None:
    """Write the second copy of the file at `path`, whose content is `body` by now.

    The copy is not synced by itself: a crash may take or tear it, which its checksum shows, while the file itself is
    sound. If there is no room for a copy, the old one is removed, since its content would contradict the file's.
    """
    copy = path + COPY
    try:
        disk.remove(copy + TEMPORARY)
        file = disk.open(copy + TEMPORARY, create=True)
        try:
            file.write_at(0, [body])
        finally:
            file.release()
        disk.rename(copy + TEMPORARY, copy)
    except OSError as fault:
        if fault.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        disk.remove(copy + TEMPORARY)
        disk.remove(copy)


def read_small(disk: Disk, path: str) -> bytes | None:
    """The content of a small file; None if it is missing, BadCheckpoint if it cannot be read."""
    try:
        return disk.read(path) if disk.exists(path) else None
    except OSError as error:
        if error.errno in _NO_FILES:
            raise
        raise BadCheckpoint(f"{path} cannot be read: {error.strerror or error}") from error


def clear_the_way(disk: Disk, path: str) -> None:
    """Rename a directory that is in the place of a file, so that the file can be written."""
    if not disk.is_directory(path):
        return
    aside, number = path + ASIDE, 1
    while disk.exists(aside):
        aside, number = f"{path}.{number}{ASIDE}", number + 1
    disk.rename(path, aside)


# --- checkpoints ---


def sealed(lines: Sequence[str]) -> bytes:
    """The lines of a checkpoint with their CRC32C behind the last entry, as blanks: a space for 0, a tab for 1.

    Apache Kafka's readers take each line up to the end of the file for an entry, so that no line can be added, and
    split it at runs of blanks, so that those at its end are not seen (CheckpointFile, OffsetCheckpointFile and
    LeaderEpochCheckpointFile, all versions). A checkpoint without entries has no checksum and needs none.
    """
    text = "".join(f"{line}\n" for line in lines)
    if len(lines) <= 2:
        return text.encode()
    crc = crc32c(text.encode())
    blanks = "".join("\t" if crc >> bit & 1 else " " for bit in range(_BITS))
    return f"{text[:-1]}{blanks}\n".encode()


def write_offsets(disk: Disk, path: str, offsets: Mapping[TopicPartition, int], *, copied: bool = False) -> None:
    """Version 0, the count, then `topic partition offset` a line."""
    lines = ["0", str(len(offsets))]
    lines += [f"{place.topic} {place.partition} {offset}" for place, offset in sorted(offsets.items())]
    body = sealed(lines)
    replace_file(disk, path, body, at_once=True)
    if copied:
        put_copy(disk, path, body)


def read_offsets(disk: Disk, path: str) -> dict[TopicPartition, int]:
    """Empty where the file is missing; BadCheckpoint where it does not parse."""
    return parse_offsets(path, disk.read(path))[0] if disk.exists(path) else {}


def parse_offsets(path: str, body: bytes) -> tuple[dict[TopicPartition, int], bool]:
    """The entries, and whether a checksum vouches for them."""
    lines, is_sealed = _checkpoint_lines(path, body)
    found: dict[TopicPartition, int] = {}
    for line in lines:
        words = line.split(" ")
        if len(words) != 3:
            raise BadCheckpoint(f"{path}: expected 'topic partition offset', found {line!r}")
        found[TopicPartition(words[0], _number(path, words[1]))] = _number(path, words[2])
    return found, is_sealed


def write_epochs(disk: Disk, path: str, epochs: list[tuple[int, int]]) -> None:
    """Version 0, the count, then `epoch start-offset` a line."""
    replace_file(disk, path, sealed(["0", str(len(epochs)), *(f"{epoch} {start}" for epoch, start in epochs)]))


def read_epochs(disk: Disk, path: str) -> list[tuple[int, int]]:
    """Empty where the file is missing; BadCheckpoint where it does not parse."""
    return parse_epochs(path, disk.read(path))[0] if disk.exists(path) else []


def parse_epochs(path: str, body: bytes) -> tuple[list[tuple[int, int]], bool]:
    """The entries, both of whose numbers rise, and whether a checksum vouches for them."""
    lines, is_sealed = _checkpoint_lines(path, body)
    found: list[tuple[int, int]] = []
    for line in lines:
        words = line.split(" ")
        if len(words) != 2:
            raise BadCheckpoint(f"{path}: expected 'epoch offset', found {line!r}")
        entry = _number(path, words[0]), _number(path, words[1])
        if found and (entry[0] <= found[-1][0] or entry[1] < found[-1][1]):
            raise BadCheckpoint(f"{path}: epoch {entry[0]} at offset {entry[1]} does not follow on {found[-1]}")
        found.append(entry)
    return found, is_sealed


def write_numbers(disk: Disk, path: str, rows: Sequence[tuple[int, ...]]) -> None:
    """Version 0, the count, then a row of numbers a line."""
    replace_file(disk, path, sealed_numbers(rows))


def sealed_numbers(rows: Sequence[tuple[int, ...]]) -> bytes:
    return sealed(["0", str(len(rows)), *(" ".join(map(str, row)) for row in rows)])


def parse_numbers(path: str, body: bytes, count: int) -> tuple[list[tuple[int, ...]], bool]:
    """Rows of `count` numbers, and whether a checksum vouches for them."""
    lines, is_sealed = _checkpoint_lines(path, body)
    found = [tuple(_number(path, word) for word in line.split(" ")) for line in lines]
    if any(len(row) != count for row in found):
        raise BadCheckpoint(f"{path}: a row has not {count} numbers")
    return found, is_sealed


def _checkpoint_lines(path: str, body: bytes) -> tuple[list[str], bool]:
    """The entries' lines, and whether a checksum vouches for them; without one, every line must be whole at least."""
    lines = body.decode("utf-8", "replace").split("\n")
    whole = lines.pop() == ""
    if len(lines) < 2 or not whole or lines[0] != "0":
        raise BadCheckpoint(f"{path}: not a version 0 checkpoint")
    count = _number(path, lines[1])
    if count != len(lines) - 2:
        raise BadCheckpoint(f"{path}: {count} entries announced, {len(lines) - 2} found")
    lines[-1], blanks = _unsealed(lines[-1])
    if blanks and crc32c("".join(f"{line}\n" for line in lines).encode()) != _crc_of(path, blanks):
        raise BadCheckpoint(f"{path}: its checksum does not hold")
    return lines[2:], bool(blanks)


def _unsealed(line: str) -> tuple[str, str]:
    text = line.rstrip(" \t")
    return text, line[len(text) :]


def _crc_of(path: str, blanks: str) -> int:
    if len(blanks) != _BITS:
        raise BadCheckpoint(f"{path}: its checksum is cut off")
    return int(blanks[::-1].translate(_DIGITS), 2)


def _number(path: str, text: str) -> int:
    number = int(text) if text.isascii() and text.removeprefix("-").isdecimal() and len(text) <= 20 else None
    if number is None or abs(number) > _LARGEST:
        raise BadCheckpoint(f"{path}: {text!r} is not a number")
    return number


# --- the topic and partition of a folder ---


class PartitionMetadata(NamedTuple):
    """The content of `partition.metadata`."""

    topic_id: TopicId
    is_sealed: bool
    """True if a checksum vouches for it."""
    place: TopicPartition | None = None
    """The topic's name and the partition; None in files of Apache Kafka and of older releases."""


def write_partition_metadata(disk: Disk, directory: str, topic_id: bytes, place: TopicPartition | None = None) -> None:
    """`partition.metadata`, which names the topic and partition of this folder (rule B4), and its second copy.

    Apache Kafka reads the first two lines. The third is our checksum of them. The fourth names the partition, with a
    checksum of all before it; it is a comment, so that releases that know three lines still read the file.
    """
    body = _partition_metadata(topic_id_text(topic_id), place)
    path = posixpath.join(directory, PARTITION_METADATA)
    file = disk.open(path + COPY, create=True)
    try:
        file.truncate(0)
        file.write_at(0, [body])
        file.sync()
    finally:
        file.release()
    replace_file(disk, path, body)


def _partition_metadata(topic_id: str, place: TopicPartition | None) -> bytes:
    text = f"version: 0\ntopic_id: {topic_id}"
    text += f"\n{_CHECKSUM}: {crc32c(text.encode()):08x}"
    if place is not None:
        text += f"\n{_PARTITION}{place}"
        text += f", {_CHECKSUM}: {crc32c(text.encode()):08x}"
    return text.encode()


def parse_partition_metadata(path: str, body: bytes) -> PartitionMetadata:
    """Raise BadCheckpoint if the file does not parse, or a checksum in it does not hold."""
    lines = body.decode("utf-8", "replace").rstrip("\n").split("\n")
    values, place = parse_properties("\n".join(lines)), None
    try:
        if values.pop("version", "") != "0":
            raise ValueError("its version is not 0")
        found = parse_topic_id(values.pop("topic_id", ""))
        if values and values != {_CHECKSUM: f"{crc32c(chr(10).join(lines[:2]).encode()):08x}"}:
            raise ValueError("its checksum does not hold")
        if len(lines) > 3:
            place = parse_directory_name(lines[3].removeprefix(_PARTITION).partition(",")[0])
            if place is None or _partition_metadata(topic_id_text(found), place) != "\n".join(lines).encode():
                raise ValueError("the checksum of its partition does not hold")
    except ValueError as fault:
        raise BadCheckpoint(f"{path}: {fault}") from None
    return PartitionMetadata(found, bool(values), place)


def parse_properties(text: str) -> dict[str, str]:
    """`key=value` or `key: value` lines; comments and blank lines are skipped."""
    found: dict[str, str] = {}
    for raw in text.split("\n"):
        line = raw.strip()
        if not line or line[0] in "#!":
            continue
        places = [at for at in (line.find("="), line.find(":")) if at >= 0]
        at = min(places) if places else len(line)
        found[line[:at].strip()] = line[at + 1 :].strip()
    return found


def format_properties(values: Mapping[str, str]) -> bytes:
    return "".join(f"{key}={values[key]}\n" for key in values).encode()
