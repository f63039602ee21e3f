"""Upkeep of a lake besides loading: print its tables' progress, merge small files, remove files that no reader needs.

None of this needs Spark, or a Kafka cluster. A loader may be at work at the same time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq

from ottla.lake.columns.layout import folder_of
from ottla.lake.columns.shape import LakeShape
from ottla.lake.notes.history import History
from ottla.lake.notes.plans import Commit, LoadPlan, Publication
from ottla.lake.notes.state import LakeRecords
from ottla.lake.rounds.files import round_of
from ottla.lake.rounds.publishing import topic_table
from ottla.lake.tables import Compacted
from ottla.stores import LakeRefused, Store, lake_url, open_store


@dataclass(frozen=True, slots=True)
class PartitionWhere:
    """The loaded end of one partition: by the table itself, and by the loader's state."""

    topic: str
    partition: int
    in_table: int
    """The next offset by the table; for plain files the one after their last row."""
    in_state: int
    rows: int
    """The rows ever loaded, by the table; for plain files the rows that are there."""


class Lake:
    """A lake that stands, for upkeep; LakeRefused where there is none."""

    def __init__(self, to: str | Path) -> None:
        self.url = lake_url(to)
        self.store: Store = open_store(self.url)
        self._records = LakeRecords(self.store)
        shape = self._records.shape()
        if shape is None:
            raise LakeRefused(f"there is no lake at {self.url}: nothing was ever loaded")
        self.shape: LakeShape = shape

    def committed(self) -> Commit:
        """The committed offsets of the loader's state."""
        return self._records.committed()

    def history(self) -> History:
        """The rounds in the loader's state."""
        return self._records.history()

    def unfinished(self, committed: Commit) -> Publication | LoadPlan | None:
        """The round after the commit, where a loader is at work on it or was killed in it."""
        return self._records.unfinished(committed)

    def topics(self, named: Iterable[str] = ()) -> list[str]:
        """The lake's topics, or the named ones; LakeRefused for one that is not in the lake."""
        known = sorted(self.committed().topic_ids)
        wanted = sorted(set(named)) or known
        if missing := sorted(set(wanted) - set(known)):
            raise LakeRefused(f"nothing of topic {', '.join(missing)} is in the lake")
        return wanted

    def where(self, topics: Iterable[str] = ()) -> list[PartitionWhere]:
        """The loaded offsets per partition, by the tables and by the state."""
        state = self.committed()
        found = []
        for topic in self.topics(topics):
            offsets, rows = self._table_says(topic)
            partitions = {each.partition for each in state.offsets if each.topic == topic} | set(offsets)
            stated = {each.partition: offset for each, offset in state.offsets.items() if each.topic == topic}
            for partition in sorted(partitions):
                in_table, count = offsets.get(partition, 0), rows.get(partition, 0)
                found.append(PartitionWhere(topic, partition, in_table, stated.get(partition, 0), count))
        return found

    def compact(self, topics: Iterable[str] = (), *, target_bytes: int = 256 << 20) -> dict[str, Compacted]:
        """Join the small files of tables."""
        if self.shape.format == "parquet":
            raise LakeRefused(
                "a lake of plain Parquet files cannot be compacted: a reader that lists the files meanwhile would "
                "see rows twice, or not at all. Load into --format delta or iceberg"
            )
        wanted = self.topics(topics)
        return {topic: topic_table(self.url, self.shape, topic).compact(target_bytes) for topic in wanted}

    def expire(self, topics: Iterable[str] = (), *, older_than: timedelta = timedelta(days=7)) -> dict[str, list[str]]:
        """Remove files, and what the tables remember, that no reader of the last `older_than` needs."""
        if self.shape.format == "parquet":
            raise LakeRefused("a lake of plain Parquet files has nothing to expire: every file holds rows of its own")
        committed = self.committed().number

        def uncommitted(name: str) -> bool:
            """True for a file of a round that a loader is writing, or has written and not committed yet."""
            number = round_of(name)
            return number is not None and number > committed

        wanted = self.topics(topics)
        return {topic: topic_table(self.url, self.shape, topic).expire(older_than, uncommitted) for topic in wanted}

    def _table_says(self, topic: str) -> tuple[Mapping[int, int], Mapping[int, int]]:
        """The next offsets and the rows by partition."""
        if self.shape.format == "parquet":
            return self._files_say(topic)
        offsets: dict[int, int] = {}
        rows: dict[int, int] = {}
        for standing in topic_table(self.url, self.shape, topic).standings():
            for partition, offset in standing.offsets.items():
                offsets[partition] = max(offset, offsets.get(partition, 0))
                rows[partition] = rows.get(partition, 0) + standing.rows.get(partition, 0)
        return offsets, rows

    def _files_say(self, topic: str) -> tuple[Mapping[int, int], Mapping[int, int]]:
        """The progress by the columns `partition` and `offset` of every file."""
        offsets: dict[int, int] = {}
        rows: dict[int, int] = {}
        for entry in self.store.entries(folder_of(topic)):
            if not entry.name.endswith(".parquet") or entry.name.rpartition("/")[2][0] in "._":
                continue
            table = pq.read_table(self.store.open_input(entry.name), columns=["partition", "offset"], partitioning=None)
            for partition in pc.unique(table.column("partition")).to_pylist():
                mine = table.filter(pc.equal(table.column("partition"), partition)).column("offset")
                offsets[partition] = max(pc.max(mine).as_py() + 1, offsets.get(partition, 0))
                rows[partition] = rows.get(partition, 0) + len(mine)
        return offsets, rows
