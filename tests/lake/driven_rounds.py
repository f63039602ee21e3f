"""A topic in memory, loaded in rounds by the loader's own steps, without a broker and without Spark."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ottla import lake
from ottla.lake.notes.plans import Commit, LoadPlan
from ottla.lake.rounds.attempt import publishable
from ottla.lake.rounds.progress import RoundProgress
from ottla.lake.rounds.publishing import publisher, topic_table
from ottla.lake.rounds.settings import load_settings, with_steps
from ottla.rows.arrow import row_schema
from ottla.rows.plan import OffsetRange
from ottla.rows.read import DecodedRange
from ottla.rows.workers import Here
from ottla.stores import open_store

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
COLUMNS = ("key", "value", "headers", "partition", "offset", "timestamp")
TOPIC = "t"


@dataclass(frozen=True)
class Sent:
    """One record."""

    value: bytes | None
    key: bytes | None = b"k"


def documents(*values: object) -> list[Sent]:
    """Records with these JSON values; None is a tombstone."""
    return [Sent(None if each is None else json.dumps(each).encode()) for each in values]


@dataclass
class Rounds:
    """A lake that is loaded round by round from partitions 0 and 1 of one topic."""

    place: Path
    options: dict[str, Any]
    monkeypatch: pytest.MonkeyPatch
    partitions: tuple[list[Sent], list[Sent]] = field(default_factory=lambda: ([], []))
    committed: Commit = field(default_factory=Commit)
    dead: dict[int, str] = field(default_factory=dict)
    """The reason of each dead letter, by offset."""

    def __post_init__(self) -> None:
        options = {"dead_letter": "bad", "partition_by": "none", "json": True, **self.options}
        steps = options.pop("steps", None)
        self.settings = load_settings([TOPIC], self.place, options)  # type: ignore[arg-type]
        if steps is not None:
            self.settings = with_steps(self.settings, steps)
        self._store = open_store(self.settings.url)
        self._publisher = publisher(self.settings.shape, self._store, "L")
        self._attempts = itertools.count()

    def load(self, *records: Sent, beside: Sequence[Sent] = ()) -> dict[int, str]:
        """Load one round of these records, and of others from partition 1; returns all dead letters so far."""
        for module in ("attempt", "write"):
            self.monkeypatch.setattr(f"ottla.lake.rounds.{module}.read_decoded", self._read)
        spans = []
        for partition, added in enumerate((records, beside)):
            held = self.partitions[partition]
            begin = len(held)
            held += added
            if added or not partition:
                spans.append(OffsetRange(TOPIC, partition, begin, len(held)))
        plan = LoadPlan(self.committed.number + 1, tuple(spans))
        folder = lambda: f"_ottla/tmp/{plan.number}-{next(self._attempts)}/"  # noqa: E731
        quiet = RoundProgress("", 0, None, lambda _: None)
        made = publishable(self.settings, plan, self.committed, folder, Here(2), self._publisher, quiet)
        assert all(count.adds_up for count in made.counts)
        after = self.committed.after(made)
        self._publisher.show(made, after)
        self.committed = after
        for name in made.dead:
            for letter in pa.ipc.open_file(self._store.open_input(name)).read_all().to_pylist():
                self.dead[letter["offset"]] = letter["reason"]
        return self.dead

    def rows(self) -> list[dict[str, Any]]:
        """All rows of the lake in the order of their offsets, without the columns of records but the offset."""
        found = self.table().to_pylist()
        others = {"key", "headers", "partition", "timestamp"}
        kept = [{name: value for name, value in row.items() if name not in others} for row in found]
        order = sorted(range(len(found)), key=lambda at: (found[at]["partition"], found[at]["offset"]))
        return [kept[at] for at in order]

    def table(self) -> pa.Table:
        """The lake as a reader sees it."""
        if self.settings.shape.format == "parquet":
            return lake.rows(self.place, TOPIC).read_all()  # type: ignore[attr-defined, no-any-return]
        if self.settings.shape.format == "delta":
            import deltalake

            return deltalake.DeltaTable(str(self.place / TOPIC)).to_pyarrow_table()
        return topic_table(self.settings.url, self.settings.shape, TOPIC)._place.existing().scan().to_arrow()  # type: ignore[attr-defined, no-any-return]

    def _read(
        self, span: OffsetRange, kafka: object, *, columns: tuple[str, ...] = COLUMNS, **_: object
    ) -> Iterator[DecodedRange]:
        """Pieces of at most five records, so that columns also change between the pieces of a round."""
        records = self.partitions[span.partition]
        for begin in range(span.start, span.end, 5):
            offsets = range(begin, min(begin + 5, span.end))
            whole = {
                "key": [records[at].key for at in offsets],
                "value": [records[at].value for at in offsets],
                "headers": [None] * len(offsets),
                "partition": [span.partition] * len(offsets),
                "offset": list(offsets),
                "timestamp": [NEW_YEAR] * len(offsets),
            }
            schema = row_schema(columns)
            arrays = [pa.array(whole[each.name], each.type) for each in schema]
            yield DecodedRange(pa.RecordBatch.from_arrays(arrays, schema=schema), records=len(offsets))


Make = Callable[..., Rounds]
"""`make("delta", key="id")` is a new lake of that format."""


def both_ways(make: Make, form: str, records: Sequence[Sent], **options: Any) -> Rounds:
    """The records in one round, and each in a round of its own; the lakes must agree."""
    whole, single = make(form, **options), make(form, **options)
    whole.load(*records)
    for each in records:
        single.load(each)
    assert whole.dead.keys() == single.dead.keys()
    assert whole.rows() == single.rows()
    return whole


def event(op: object, before: object, after: object) -> dict[str, object]:
    """A change event of Debezium."""
    return {"op": op, "before": before, "after": after}


def wrapped(payload: dict[str, object], schema: object = None) -> dict[str, object]:
    """A change event in the envelope that names its schema."""
    return {"schema": schema or {"type": "struct"}, "payload": payload}
