"""The notes about a move in the folder of a replica: from or to which log directory it is on its way (moving.py)."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from typing import NamedTuple

from ottla.kernel.seams import Disk
from ottla.storage.checkpoint import format_properties, parse_properties, replace_file

MOVING = "moving"
"""ottla's own, in a partition's directory: the file of these notes."""


def write_move(disk: Disk, directory: str, *, source: str | None = None, target: str | None = None) -> None:
    """`moving`: the replica in this directory comes from, or goes to, the log directory of that id."""
    values = {"from": source} if source is not None else {"to": target or ""}
    replace_file(disk, posixpath.join(directory, MOVING), format_properties(values), at_once=True)


def write_doubt(disk: Disk, directory: str, others: Sequence[str]) -> None:
    """`moving`: the replica may as well be the folder in the log directories of these ids."""
    replace_file(disk, posixpath.join(directory, MOVING), format_properties({"or": ",".join(others)}), at_once=True)


class MoveNote(NamedTuple):
    """The notes of `moving` about a folder: ids of log directories."""

    source: str | None = None
    """The replica comes from there."""
    target: str | None = None
    """The replica goes there."""
    doubted: tuple[str, ...] = ()
    """The replica may as well be the folder there."""


def read_move(disk: Disk, directory: str) -> MoveNote:
    path = posixpath.join(directory, MOVING)
    if not disk.exists(path):
        return MoveNote()
    values = parse_properties(disk.read(path).decode("utf-8", "replace"))
    return MoveNote(values.get("from"), values.get("to"), tuple(one for one in values.get("or", "").split(",") if one))
