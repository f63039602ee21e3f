"""What the loader asks of a table format: take a round's files in one commit, once, and say what is loaded.

A table holds one topic. Its data files are in place, durable, and visible to nobody before their round is committed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from ottla.kernel.ids import NO_TOPIC_ID, TopicId

if TYPE_CHECKING:
    import pyarrow as pa

TIME_UNITS = ("month", "day", "hour")


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
    """One round of one loader for one table: what a commit carries.

    `offsets` and `rows` are per Kafka partition: the next offset to load, and the rows ever loaded, after this round.
    """

    loader: str
    """Names the lake's loader for good; the same after a restart."""
    number: int
    """Grows by one a round of this loader, over all its tables; a table may see gaps."""
    topic: str
    schema: pa.Schema
    """The table's columns after this round, without partition columns that files do not hold."""
    files: tuple[TableFile, ...] = ()
    offsets: Mapping[int, int] = field(default_factory=dict)
    rows: Mapping[int, int] = field(default_factory=dict)
    topic_id: TopicId = NO_TOPIC_ID


@dataclass(frozen=True, slots=True)
class Standing:
    """What a table itself says is loaded: the newest round of a loader that it holds."""

    loader: str
    number: int
    offsets: Mapping[int, int]
    rows: Mapping[int, int]
    topic_id: TopicId = NO_TOPIC_ID


class Table(Protocol):
    """One topic's table."""

    def standing(self, loader: str) -> Standing | None:
        """The newest round of this loader that the table holds; None where there is none, or no table yet."""

    def commit(self, done: TableRound) -> bool:
        """Make a round visible, whole and once; False where the table holds it, or a later one, already.

        Creates the table where there is none and widens its schema where the round's is wider. A conflict with
        somebody else's commit is tried again; a lost answer is settled by what the table then says.
        """
