"""The calls that the loader makes on a table format: take a round's files in one commit, once, and say what is loaded.

A table holds one topic. Its data files are in place and durable, and not visible before their round is committed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

from ottla.kernel.ids import NO_TOPIC_ID, TopicId

if TYPE_CHECKING:
    import pyarrow as pa

TIME_UNITS = ("month", "day", "hour")
Uncommitted = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class TableFile:
    """A finished Parquet file: its path relative to the lake, and the values of its partition columns in order.

    A missing value is None. Time columns are text: `date` YYYY-MM-DD, `month` YYYY-MM, `hour` HH.
    """

    path: str
    rows: int
    bytes: int
    partition: tuple[tuple[str, str | None], ...] = ()


@dataclass(frozen=True, slots=True)
class TableRound:
    """One round of one loader for one table, as a commit carries it.

    `offsets` and `rows` are per Kafka partition: the next offset to load, and the rows ever loaded, after this round.
    """

    loader: str
    """The lake's loader, by a name that survives a restart."""
    number: int
    """Grows by one with each round of this loader, over all its tables; a table may see gaps."""
    topic: str
    schema: pa.Schema
    """The table's columns after this round, without partition columns that files do not hold."""
    files: tuple[TableFile, ...] = ()
    offsets: Mapping[int, int] = field(default_factory=dict)
    rows: Mapping[int, int] = field(default_factory=dict)
    topic_id: TopicId = NO_TOPIC_ID
    unavailable: str = ""
    """The text in place of values that a change event leaves out, in a table of rows by key."""


@dataclass(frozen=True, slots=True)
class LoaderStanding:
    """The progress of a loader in this table: its newest round here."""

    loader: str
    number: int
    offsets: Mapping[int, int]
    rows: Mapping[int, int]
    topic_id: TopicId = NO_TOPIC_ID


class Table(Protocol):
    """One topic's table."""

    def standing(self, loader: str) -> LoaderStanding | None:
        """The newest round of this loader that the table holds; None where there is none, or no table yet."""

    def commit(self, done: TableRound) -> bool:
        """Make a round visible, whole and once; False where the table holds it, or a later one, already.

        Creates the table where there is none and widens its schema where the round's is wider. A conflict with
        another commit is tried again; after a lost answer the table shows whether the commit was made.
        """


@dataclass(frozen=True, slots=True)
class Compacted:
    """The outcome of a compaction: small files by fewer larger ones with the same rows."""

    files_before: int = 0
    files_after: int = 0


class LakeTable(Table, Protocol):
    """A table with all that the commands of `ottla lake` ask of it."""

    def standings(self) -> list[LoaderStanding]:
        """The newest round of every loader that the table holds, sorted by loader."""

    def columns(self) -> pa.Schema:
        """The table's columns; none where there is no table yet."""

    def check(self, done: TableRound) -> None:
        """LakeRefused where the table cannot have a round's columns, as where its older rows do not fit a wider type.

        Nothing is changed. A round is checked before it is published: from there on it must be carried through.
        """

    def commit_keyed(self, done: TableRound, key: tuple[str, ...]) -> bool:
        """Take a round's staged files as changes by key: the last row of each key stays, a deleted key's goes.

        `done.schema` leaves out the column DELETED, which staged files may hold (see keyed.py). The staged files never
        become the table's: they may be removed once this has returned.
        """

    def compact(self, target_bytes: int = 256 << 20) -> Compacted:
        """Replace small files by larger ones. Loaders may commit meanwhile; readers see the same rows all the time."""

    def expire(
        self, older_than: timedelta = timedelta(days=7), uncommitted: Uncommitted = lambda name: False
    ) -> list[str]:
        """Remove files that no reader that began within `older_than` needs; returns the removed files.

        A file that no commit names is removed too where it is older than that and is not `uncommitted`: a file, by its
        name in the lake, of a round that is not committed yet. The caller must know them all.
        """
