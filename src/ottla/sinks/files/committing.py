"""Finished files come into their place in a store: under a name by their first offset, or by both.

By the first offset (S3): the same records give the same name, and the same file again after a kill. By both (HDFS): the
files of one partition come together, by a note of them that is carried out to its end, and their names say how far the
partition got. The methods block.
"""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, Any, Final, Protocol

from ottla.kernel.ids import TopicPartition
from ottla.stores import FinishedFile, Store

_PIECE: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Finished:
    """A file that has all its records."""

    folder: str
    first: int
    last: int
    content: IO[bytes]


@dataclass(frozen=True, slots=True)
class Naming:
    """The names of files: `topics/T/partition=0/T+0+0000000000.json`."""

    topics: str
    """The folder of all topics; may be empty."""
    extension: str
    between_folders: str = "/"
    between_parts: str = "+"
    digits: int = 10

    def folder(self, topic: str) -> str:
        """The folder of a topic, with the delimiter behind it."""
        return self.between_folders.join((self.topics, topic, "") if self.topics else (topic, ""))

    def name(self, partition: TopicPartition, folder: str, *offsets: int) -> str:
        """The name of a file by its offsets."""
        parts = [partition.topic, str(partition.partition), *(str(each).zfill(self.digits) for each in offsets)]
        inside = self.between_folders.join((folder, self.between_parts.join(parts) + self.extension))
        return self.folder(partition.topic) + inside


class Committer(Protocol):
    """Puts files into their place."""

    def commit(self, partition: TopicPartition, files: Sequence[Finished]) -> None:
        """Put all files of a partition into their place; may be repeated."""

    def begin(self, partition: TopicPartition) -> int | None:
        """Complete what was begun; the offset behind all files that are there, None where names do not say that."""


class ByFirstOffset:
    """A file has its place once it is whole. The offset is kept in Kafka."""

    def __init__(self, store: Store, naming: Naming) -> None:
        self._store, self._naming = store, naming

    def commit(self, partition: TopicPartition, files: Sequence[Finished]) -> None:
        for each in files:
            write(self._store, self._naming.name(partition, each.folder, each.first), each.content)

    def begin(self, partition: TopicPartition) -> int | None:
        return None


class ByBothOffsets:
    """Files are written under other names, noted, and given their own; so all of a partition come, or none."""

    def __init__(self, store: Store, naming: Naming, logs: str) -> None:
        self._store, self._naming, self._logs = store, naming, logs
        self._temporary = f"{naming.topics}/+tmp" if naming.topics else "+tmp"

    def commit(self, partition: TopicPartition, files: Sequence[Finished]) -> None:
        moves = [self._written(partition, each) for each in files]
        self._store.replace(self._note(partition), json.dumps([_row(move) for move in moves]).encode())
        self._carry_out(partition, moves)

    def begin(self, partition: TopicPartition) -> int | None:
        noted = self._store.read(self._note(partition))
        if noted is not None:
            self._carry_out(partition, [FinishedFile(*row) for row in json.loads(noted)])
        self._store.remove_folder(self._of(partition))
        ends = [
            end
            for entry in self._store.entries(self._naming.folder(partition.topic))
            if (end := self._end_of(partition, entry.name)) is not None
        ]
        return max(ends) + 1 if ends else None

    def _written(self, partition: TopicPartition, file: Finished) -> FinishedFile:
        temporary = f"{self._of(partition)}{uuid.uuid4()}_tmp{self._naming.extension}"
        size = write(self._store, temporary, file.content)
        return FinishedFile(temporary, self._naming.name(partition, file.folder, file.first, file.last), size)

    def _carry_out(self, partition: TopicPartition, moves: Sequence[FinishedFile]) -> None:
        self._store.reveal(moves)
        self._store.remove([self._note(partition)])

    def _of(self, partition: TopicPartition) -> str:
        return f"{self._temporary}/{partition.topic}/{partition.partition}/"

    def _note(self, partition: TopicPartition) -> str:
        return f"{self._logs}/{partition.topic}/{partition.partition}/ottla-moves"

    def _end_of(self, partition: TopicPartition, name: str) -> int | None:
        """The last offset of a file of the partition, None for another file."""
        begin = f"{partition.topic}+{partition.partition}+"
        file = name.rpartition("/")[2]
        if not file.startswith(begin):
            return None
        parts = file[len(begin) :].partition(".")[0]
        first, _, last = parts.partition("+")
        return int(last) if first.isdigit() and last.isdigit() else None


def _row(move: FinishedFile) -> list[Any]:
    return [move.temporary, move.final, move.bytes]


def write(store: Store, name: str, content: IO[bytes]) -> int:
    """Write a file of the store; its size. Nothing is visible under the name before it is whole."""
    content.seek(0)
    output = store.open_output(name)
    try:
        shutil.copyfileobj(content, output.sink, _PIECE)
        return output.finish()
    except BaseException:
        output.abandon()
        raise
