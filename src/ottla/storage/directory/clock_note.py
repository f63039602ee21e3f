"""The note of the time that each run of a broker leaves in its log directories, for the next start to compare with."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from typing import NamedTuple

from ottla.kernel.seams import Disk
from ottla.kernel.trusted_time import ClockStep, TimeNote
from ottla.records.checksum import crc32c
from ottla.storage import checkpoint
from ottla.storage.checkpoint import BadCheckpoint, format_properties, parse_properties, read_small, replace_file
from ottla.storage.directory import incarnation

CLOCK = "clock"
"""ottla's own, in a log directory."""
_ALSO_DATED = (
    checkpoint.RECOVERY_POINT,
    checkpoint.LOG_START,
    checkpoint.REPLICATION,
    checkpoint.CLEAN_SHUTDOWN,
    checkpoint.META_PROPERTIES,
    *incarnation.FILES,
)
"""Files that a run replaces: where there is no note, they tell when the broker has run last."""
_CRC = "crc"


class ClockNote(NamedTuple):
    """The time as it was known to a run, and by which clocks it was measured."""

    time: TimeNote
    boot: str = ""
    """The id of the machine's boot, and how long it was up then: empty where that is not known."""
    uptime_ms: int = -1
    accepted_ms: int = -1
    """The administrator's word that was taken last."""


class NotedTime(NamedTuple):
    """The time as the log directories tell it at a start."""

    note: ClockNote | None
    """None if all of them are new."""
    faults: tuple[str, ...]


def read_notes(disk: Disk, directories: Iterable[str]) -> NotedTime:
    """The note of the longest run; without any, the newest date of a checkpoint stands for it."""
    found: list[ClockNote] = []
    faults: list[str] = []
    dated: list[int] = []
    for directory in directories:
        try:
            body = read_small(disk, path := posixpath.join(directory, CLOCK))
            if body is not None:
                found.append(_decode(path, body))
        except BadCheckpoint as bad:
            faults.append(str(bad))
        dated += _dates(disk, directory)
    if found:
        return NotedTime(max(found, key=lambda each: each.time.running_ms), tuple(faults))
    return NotedTime(ClockNote(TimeNote(max(dated), 0)) if dated else None, tuple(faults))


def _dates(disk: Disk, directory: str) -> list[int]:
    paths = [posixpath.join(directory, name) for name in _ALSO_DATED]
    try:
        return [disk.modified_ms(path) for path in paths if disk.exists(path)]
    except OSError:  # the opening of the directory reports it
        return []


def write_note(disk: Disk, directory: str, note: ClockNote) -> None:
    path = posixpath.join(directory, CLOCK)
    checkpoint.clear_the_way(disk, path)
    replace_file(disk, path, _encode(note), at_once=True)


def _encode(note: ClockNote) -> bytes:
    time = note.time
    text = format_properties(
        {
            "version": "0",
            "wall.ms": str(time.wall_ms),
            "running.ms": str(time.running_ms),
            "behind.ms": str(time.behind_ms),
            "steps": " ".join(f"{step.size_ms},{step.at_ms},{int(step.returned)}" for step in time.steps),
            "settled": str(int(time.settled)),
            "boot": note.boot,
            "uptime.ms": str(note.uptime_ms),
            "accepted.ms": str(note.accepted_ms),
        }
    )
    return text + f"{_CRC}={crc32c(text):08x}\n".encode()


def _decode(path: str, body: bytes) -> ClockNote:
    """BadCheckpoint where the checksum does not hold."""
    text, _, crc = body.rpartition(f"{_CRC}=".encode())
    if crc != f"{crc32c(text):08x}\n".encode():
        raise BadCheckpoint(f"{path} does not match its checksum")
    values = parse_properties(text.decode("utf-8", "replace"))
    try:
        steps = [tuple(map(int, words.split(","))) for words in values["steps"].split()]
        return ClockNote(
            TimeNote(
                int(values["wall.ms"]),
                int(values["running.ms"]),
                int(values["behind.ms"]),
                tuple(ClockStep(size, at, bool(returned)) for size, at, returned in steps),
                values["settled"] == "1",
            ),
            values["boot"],
            int(values["uptime.ms"]),
            int(values["accepted.ms"]),
        )
    except (KeyError, ValueError) as fault:
        raise BadCheckpoint(f"{path} is of another version: {fault}") from None
