"""Files and directories of the simulated disk: as processes see them, as last synced, and the un-synced changes.

A crash keeps any of the un-synced changes; `disk.py` makes the operations on these, `disk_crashes.py` the crashes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple, TypeVar

T = TypeVar("T")

SECTOR_BYTES = 512
_ALL_SUBSETS_UP_TO = 6
"""The most un-synced changes of which every subset is a state; of more, only prefixes and all-but-one subsets."""


class Change(NamedTuple):
    """One un-synced change of a file: bytes at a position, or (`piece` None) a size to cut or stretch to."""

    position: int
    piece: bytes | None


class NameChange(NamedTuple):
    """One un-synced change of a directory: names that go, and a name that comes; both together or not at all."""

    gone: str | None
    name: str | None
    node: FileNode | DirectoryNode | None


class FileNode:
    __slots__ = ("body", "disk_body", "modified_ms", "pending")

    def __init__(self, modified_ms: int) -> None:
        self.body = bytearray()
        """The content as processes see it."""
        self.disk_body = bytearray()
        """The content as the last sync left it."""
        self.pending: list[Change] = []
        self.modified_ms = modified_ms

    def note_write(self, position: int, piece: bytes) -> None:
        _put(self.body, position, piece)
        while piece:
            count = SECTOR_BYTES - position % SECTOR_BYTES
            self.pending.append(Change(position, piece[:count]))
            position, piece = position + count, piece[count:]

    def note_size(self, size: int) -> None:
        _resize(self.body, size)
        self.pending.append(Change(size, None))

    def settle(self) -> None:
        for change in self.pending:
            _apply(self.disk_body, change)
        self.pending = []

    def after_crash(self, kept: Sequence[Change], stretched: bool) -> bytes:
        """The content with only these un-synced changes; `stretched`: the new size is kept without its sectors."""
        body = bytearray(self.disk_body)
        for change in kept:
            _apply(body, change)
        if stretched and len(body) < len(self.body):
            _resize(body, len(self.body))
        return bytes(body)

    def copied(self) -> FileNode:
        """A file with the same bytes, all of them durable."""
        copy = FileNode(self.modified_ms)
        copy.body, copy.disk_body = bytearray(self.body), bytearray(self.body)
        return copy

    def states(self) -> list[bytes]:
        """All contents a crash may leave (a good part of them where very much is un-synced)."""
        ways = itertools.product(subsets(self.pending), (False, True))
        return list(dict.fromkeys(self.after_crash(kept, stretched) for kept, stretched in ways))


class DirectoryNode:
    __slots__ = ("disk_names", "names", "pending")

    def __init__(self) -> None:
        self.names: dict[str, FileNode | DirectoryNode] = {}
        self.disk_names: dict[str, FileNode | DirectoryNode] = {}
        self.pending: list[NameChange] = []

    def change(self, gone: str | None, name: str | None, node: FileNode | DirectoryNode | None) -> None:
        change = NameChange(gone, name, node)
        _rename(self.names, change)
        self.pending.append(change)

    def settle(self) -> None:
        self.disk_names = dict(self.names)
        self.pending = []

    def copied(self) -> DirectoryNode:
        """A copy with all that is below, as processes see it."""
        copy = DirectoryNode()
        copy.names = {name: node.copied() for name, node in self.names.items()}
        copy.settle()
        return copy

    def after_crash(self, kept: Sequence[NameChange]) -> dict[str, FileNode | DirectoryNode]:
        names = dict(self.disk_names)
        for change in kept:
            _rename(names, change)
        return names


def _put(body: bytearray, position: int, piece: bytes) -> None:
    if position > len(body):
        body.extend(bytes(position - len(body)))
    body[position : position + len(piece)] = piece


def _resize(body: bytearray, size: int) -> None:
    if size < len(body):
        del body[size:]
    else:
        body.extend(bytes(size - len(body)))


def _apply(body: bytearray, change: Change) -> None:
    if change.piece is None:
        _resize(body, change.position)
    else:
        _put(body, change.position, change.piece)


def _rename(names: dict[str, FileNode | DirectoryNode], change: NameChange) -> None:
    if change.gone is not None:
        names.pop(change.gone, None)
    if change.name is not None and change.node is not None:
        names[change.name] = change.node


def settle_below(directory: DirectoryNode) -> None:
    """Make a directory and all that is below durable."""
    directory.settle()
    for node in directory.names.values():
        if isinstance(node, DirectoryNode):
            settle_below(node)
        else:
            node.settle()


def subsets(changes: Sequence[T]) -> Iterator[Sequence[T]]:
    """Every subset, in order; of a long list only the prefixes and the subsets that lack one change."""
    count = len(changes)
    if count <= _ALL_SUBSETS_UP_TO:
        for kept in itertools.product((False, True), repeat=count):
            yield [change for change, keep in zip(changes, kept, strict=True) if keep]
        return
    for end in range(count + 1):
        yield changes[:end]
    for missing in range(count - 1):
        yield [change for at, change in enumerate(changes) if at != missing]


def draw(changes: Sequence[T], random: Random | None) -> Sequence[T]:
    """A random subset: none, all, a prefix, or each by a coin, as real disks may keep any of these."""
    if random is None or not changes:
        return []
    way = random.randrange(4)
    if way == 0:
        return []
    if way == 1:
        return changes
    if way == 2:
        return changes[: random.randrange(len(changes) + 1)]
    return [change for change in changes if random.random() < 0.5]
