"""Strays: partitions of no known topic, and files beside segments, which a start renames and keeps (rule H4).

A partition's folder becomes `topic-partition.<topic id>-stray`, as Apache Kafka names it, with a file `stray` in it
that says since when, why, and what the checkpoints knew of it; beside it where it cannot be written to. A file gets
`.<time>.aside` behind its name. Both stay until an administrator removes them (`ottla log strays --remove`), or
`log.stray.retention.ms` has passed.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from ottla.kernel.ids import TopicId, TopicPartition, topic_id_text
from ottla.kernel.seams import Disk
from ottla.storage.checkpoint import (
    ASIDE,
    PARTITION_METADATA,
    BadCheckpoint,
    format_properties,
    parse_properties,
    read_small,
    replace_file,
)
from ottla.storage.directory.found import STRAY_SUFFIX, FoundPartition
from ottla.storage.directory.remembered import remembered_identity
from ottla.storage.directory.witnesses import LogFiles
from ottla.storage.values import FULL_DISK, NO_RIGHTS, parse_directory_name

NOTE = "stray"
"""ottla's own, in a stray folder."""
BESIDE = ".note"
"""The suffix of a stray folder's note, for a folder that cannot be written to."""
_NAME_MAX = 255
_SINCE = "since.ms"


class Stray(NamedTuple):
    """A partition's folder that was set aside, or a file (then `file` is its name in the partition)."""

    path: str
    topic: str
    partition: int
    topic_id: str
    size_bytes: int
    start_offset: int
    end_offset: int
    since_ms: int | None
    """None if nothing tells: Apache Kafka, or an older release, has set it aside."""
    reason: str
    file: str = ""


def set_aside(
    disk: Disk, root: str, found: FoundPartition, *, reason: str, known: Mapping[str, int], wall_ms: int
) -> str:
    """Rename a partition's folder, and return its new path. `known`: the checkpoints' values for it, by name."""
    place = TopicPartition(found.topic, found.partition)
    number, renamed = int.from_bytes(found.topic_id or bytes(16), "big"), found.path
    while disk.exists(renamed):
        suffix = f".{number:032x}{STRAY_SUFFIX}"
        renamed = posixpath.join(root, str(place)[: _NAME_MAX - len(suffix)] + suffix)
        number = (number + 1) % (1 << 128)
    note = {_SINCE: str(wall_ms), "topic": found.topic, "partition": str(found.partition), "reason": reason}
    _write_note(disk, found.path, note | {name: str(offset) for name, offset in known.items()}, beside=renamed + BESIDE)
    try:
        disk.rename(found.path, renamed)
    except OSError:
        with suppress(OSError):
            disk.remove(renamed + BESIDE)
        raise
    return renamed


def _write_note(disk: Disk, folder: str, note: Mapping[str, str], *, beside: str) -> None:
    """Write the note of a stray folder; on a full disk it is written later."""
    body = format_properties(note)
    try:
        try:
            replace_file(disk, posixpath.join(folder, NOTE), body)
        except OSError as error:
            if error.errno not in NO_RIGHTS:
                raise
            replace_file(disk, beside, body)
    except OSError as error:
        if error.errno not in FULL_DISK:
            raise


def stray_folders(disk: Disk, root: str) -> list[str]:
    return [
        path
        for name in disk.list(root)
        if name.endswith(STRAY_SUFFIX) and disk.is_directory(path := posixpath.join(root, name))
    ]


def strays(disk: Disk, root: str) -> Iterator[Stray]:
    """All that is set aside in a log directory."""
    for folder in stray_folders(disk, root):
        yield described(disk, folder)
    for name in disk.list(root):
        inside = posixpath.join(root, name)
        if name.endswith(ASIDE):
            yield described(disk, inside)
        elif parse_directory_name(name) is not None and disk.is_directory(inside):
            for file in disk.list(inside):
                if file.endswith(ASIDE):
                    yield described(disk, posixpath.join(inside, file))


def folder_in_words(disk: Disk, folder: str) -> tuple[TopicPartition, str]:
    """The partition of a stray folder, and why it was set aside; its files are not looked at."""
    note = read_note(disk, folder)
    name = parse_directory_name(posixpath.basename(folder).removesuffix(STRAY_SUFFIX).rpartition(".")[0])
    number = note.get("partition", "")
    topic = note.get("topic", name.topic if name else "")
    partition = int(number) if number.isascii() and number.isdecimal() else name.partition if name else -1
    return TopicPartition(topic, partition), note.get("reason", "nothing says why")


def described(disk: Disk, path: str) -> Stray:
    """The facts about a folder or a file that was set aside."""
    return _file(disk, path) if path.endswith(ASIDE) else _folder(disk, path)


def _folder(disk: Disk, folder: str) -> Stray:
    place, reason = folder_in_words(disk, folder)
    identity = remembered_identity(disk, posixpath.join(folder, PARTITION_METADATA)).topic_id
    size, start, end = _extent(disk, folder)
    topic_id = topic_id_text(TopicId(identity)) if identity is not None else ""
    return Stray(folder, *place, topic_id, size, start, end, _since(disk, folder), reason)


def _extent(disk: Disk, folder: str) -> tuple[int, int, int]:
    """Bytes, first and end offset; -1 for a number that cannot be read."""
    try:
        files = LogFiles(disk, folder)
        return size_of(disk, folder), files.bases[0] if files.bases else 0, files.end_offset()
    except OSError as error:
        if error.errno not in NO_RIGHTS:
            raise
        return -1, -1, -1


def _file(disk: Disk, path: str) -> Stray:
    folder, name = posixpath.split(path)
    place = parse_directory_name(posixpath.basename(folder)) or TopicPartition("", -1)
    since, size = _since(disk, path), size_of(disk, path)
    return Stray(path, place.topic, place.partition, "", size, -1, -1, since, "a start could not explain it", name)


def _since(disk: Disk, path: str) -> int | None:
    name = posixpath.basename(path)
    text = name.removesuffix(ASIDE).rpartition(".")[2] if name.endswith(ASIDE) else read_note(disk, path).get(_SINCE)
    return int(text) if text and text.isascii() and text.isdecimal() else None


def read_note(disk: Disk, folder: str) -> dict[str, str]:
    """The note that was written as the folder was set aside; empty where there is none."""
    for path in (posixpath.join(folder, NOTE), folder + BESIDE):
        try:
            body = read_small(disk, path)
        except BadCheckpoint:
            continue
        if body is not None:
            return parse_properties(body.decode("utf-8", "replace"))
    return {}


def size_of(disk: Disk, path: str) -> int:
    """Bytes of a file, or of all files below a folder."""
    if disk.is_directory(path):
        return sum(size_of(disk, posixpath.join(path, name)) for name in disk.list(path))
    return disk.file_size(path) if disk.exists(path) else 0  # a link may lead to nothing


def is_due(disk: Disk, path: str, *, wall_ms: int, retention_ms: int, time_ms: int | None = None) -> bool:
    """True if a stray was set aside `retention_ms` ago; if that time is not known, it is counted from now on.

    `time_ms`: the trusted time, where it is another than the wall clock (rule B9).
    """
    since = _since(disk, path)
    if since is None and not path.endswith(ASIDE):
        _write_note(disk, path, read_note(disk, path) | {_SINCE: str(wall_ms)}, beside=path + BESIDE)
    return since is not None and (wall_ms if time_ms is None else time_ms) - since >= retention_ms


def remove(disk: Disk, one: Stray) -> None:
    """Delete a stray for good."""
    if disk.is_directory(one.path):
        disk.remove_tree(one.path)
        disk.remove(one.path + BESIDE)
    else:
        disk.remove(one.path)
    disk.sync_directory(posixpath.dirname(one.path))
