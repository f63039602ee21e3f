"""Small files that are replaced as a whole: Kafka's offset checkpoints, properties, and the marks of a directory.

Temporary file, fsync, rename, fsync of the directory (rule B2): after a crash the old text is there or the new.
"""

from __future__ import annotations

import contextlib
import posixpath
from collections.abc import Mapping, Sequence

from ottla.kernel.ids import TopicId, TopicPartition, parse_topic_id, topic_id_text
from ottla.kernel.seams import Disk

RECOVERY_POINT = "recovery-point-offset-checkpoint"
LOG_START = "log-start-offset-checkpoint"
REPLICATION = "replication-offset-checkpoint"
CLEANER = "cleaner-offset-checkpoint"
LEADER_EPOCHS = "leader-epoch-checkpoint"
SCRUBBED = "scrub-offset-checkpoint"
"""ottla's own: how far the scrub's pass has come; empty between passes, and written when the last one ended."""
DAMAGE = "damage-checkpoint"
"""ottla's own, in a partition's directory."""
PARTITION_METADATA = "partition.metadata"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
MOVING = "moving"
"""ottla's own, in a partition's directory: from or to which other log directory it is being moved (moving.py)."""
SYNC_FAILED = ".sync-failed"
"""ottla's own. Stands in the page cache for as long as pages that a failed sync has dropped may stand there."""
PAGE_CACHE = ".page-cache"
"""ottla's own. Which page cache the directory was last written through: another one may lack what was not synced."""
META_PROPERTIES = "meta.properties"
TEMPORARY = ".tmp"


class BadCheckpoint(Exception):
    """The text of a checkpoint does not parse."""


def replace_file(disk: Disk, path: str, body: bytes, *, at_once: bool = False) -> None:
    """Put `body` at `path` for good; where syncs are gathered, only `at_once` keeps a crash from finding neither."""
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
    """Leave a mark in a log directory, as far as the disk lets us.

    It is not synced: a reboot takes it away together with the page cache, which is what it warns of.
    """
    with contextlib.suppress(OSError):
        disk.open(posixpath.join(path, SYNC_FAILED), create=True).release()


def write_offsets(disk: Disk, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Version 0, the count, then `topic partition offset` a line."""
    lines = ["0", str(len(offsets))]
    lines += [f"{place.topic} {place.partition} {offset}" for place, offset in sorted(offsets.items())]
    replace_file(disk, path, ("\n".join(lines) + "\n").encode(), at_once=True)


def read_offsets(disk: Disk, path: str) -> dict[TopicPartition, int]:
    """Empty where the file is missing; BadCheckpoint where it does not parse."""
    found: dict[TopicPartition, int] = {}
    for line in _checkpoint_lines(disk, path):
        words = line.split(" ")
        if len(words) != 3:
            raise BadCheckpoint(f"{path}: expected 'topic partition offset', found {line!r}")
        found[TopicPartition(words[0], _number(path, words[1]))] = _number(path, words[2])
    return found


def write_epochs(disk: Disk, path: str, epochs: list[tuple[int, int]]) -> None:
    """Version 0, the count, then `epoch start-offset` a line."""
    lines = ["0", str(len(epochs))] + [f"{epoch} {start}" for epoch, start in epochs]
    replace_file(disk, path, ("\n".join(lines) + "\n").encode())


def read_epochs(disk: Disk, path: str) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for line in _checkpoint_lines(disk, path):
        words = line.split(" ")
        if len(words) != 2:
            raise BadCheckpoint(f"{path}: expected 'epoch offset', found {line!r}")
        found.append((_number(path, words[0]), _number(path, words[1])))
    return found


def write_numbers(disk: Disk, path: str, rows: Sequence[tuple[int, ...]]) -> None:
    """Version 0, the count, then a row of numbers a line."""
    lines = ["0", str(len(rows)), *(" ".join(map(str, row)) for row in rows)]
    replace_file(disk, path, ("\n".join(lines) + "\n").encode())


def read_numbers(disk: Disk, path: str, count: int) -> list[tuple[int, ...]]:
    """Rows of `count` numbers; empty where the file is missing."""
    found = [tuple(_number(path, word) for word in line.split(" ")) for line in _checkpoint_lines(disk, path)]
    if any(len(row) != count for row in found):
        raise BadCheckpoint(f"{path}: a row has not {count} numbers")
    return found


def _checkpoint_lines(disk: Disk, path: str) -> list[str]:
    if not disk.exists(path):
        return []
    lines = disk.read(path).decode("utf-8", "replace").split("\n")
    if lines and lines[-1] == "":
        lines.pop()
    if len(lines) < 2 or lines[0] != "0":
        raise BadCheckpoint(f"{path}: not a version 0 checkpoint")
    count = _number(path, lines[1])
    if count != len(lines) - 2:
        raise BadCheckpoint(f"{path}: {count} entries announced, {len(lines) - 2} found")
    return lines[2:]


def _number(path: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise BadCheckpoint(f"{path}: {text!r} is not a number") from None


def write_partition_metadata(disk: Disk, directory: str, topic_id: bytes) -> None:
    """`partition.metadata`: whose partition this directory holds, whatever its name (rule B4)."""
    body = f"version: 0\ntopic_id: {topic_id_text(topic_id)}"
    replace_file(disk, posixpath.join(directory, PARTITION_METADATA), body.encode())


def read_partition_metadata(disk: Disk, directory: str) -> TopicId | None:
    """The topic id, or None where the file is missing (a partition older than topic ids, or a crash at its birth)."""
    path = posixpath.join(directory, PARTITION_METADATA)
    if not disk.exists(path):
        return None
    values = parse_properties(disk.read(path).decode("utf-8", "replace"))
    try:
        if values.get("version") != "0":
            raise ValueError("its version is not 0")
        return parse_topic_id(values.get("topic_id", ""))
    except ValueError as fault:
        raise BadCheckpoint(f"{path}: {fault}") from None


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


def write_move(disk: Disk, directory: str, *, source: str | None = None, target: str | None = None) -> None:
    """`moving`: the replica in this directory comes from, or goes to, the log directory of that id."""
    values = {"from": source} if source is not None else {"to": target or ""}
    replace_file(disk, posixpath.join(directory, MOVING), format_properties(values), at_once=True)


def read_move(disk: Disk, directory: str) -> tuple[str | None, str | None]:
    """The ids of the log directories that it came from and goes to; None where it does not."""
    path = posixpath.join(directory, MOVING)
    if not disk.exists(path):
        return None, None
    values = parse_properties(disk.read(path).decode("utf-8", "replace"))
    return values.get("from"), values.get("to")
