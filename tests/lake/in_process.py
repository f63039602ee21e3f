"""Loads without Spark and without a broker: the loader's own steps in this process, over values that a test gives."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from ottla.formats.writer import WriterSchema
from ottla.lake.columns import values
from ottla.lake.notes.plans import Commit, LoadPlan
from ottla.lake.rounds import attempt, write
from ottla.lake.rounds.attempt import publishable
from ottla.lake.rounds.progress import RoundProgress
from ottla.lake.rounds.publishing import publisher
from ottla.lake.rounds.settings import load_settings
from ottla.rows.arrow import TYPES
from ottla.rows.plan import OffsetRange
from ottla.rows.read import DecodedRange
from ottla.rows.workers import Here
from ottla.stores import open_store

TOPIC = "t"
AT = datetime(2026, 3, 1, 10, 30, tzinfo=UTC)
NAMES = ("key", "value", "headers", "partition", "offset", "timestamp")


class Load:
    """A lake of one topic: each round appends values to the topic and loads them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path, format: str, **options: Any) -> None:
        self._monkeypatch = monkeypatch
        self.folder = folder / "lake"
        self.catalog = f"sqlite:///{folder}/catalog.db"
        if format == "iceberg":
            options["catalog"] = self.catalog
        self._options = {"format": format, "partition_by": "none", **options}
        self.settings = load_settings([TOPIC], self.folder, self._options)
        self.store = open_store(self.settings.url)
        self.committed = Commit()
        self.letters: list[str] = []
        self._log: list[bytes | None] = []
        self._attempts = itertools.count()
        self._publisher = publisher(self.settings.shape, self.store, "L")
        for module in (attempt, write):
            monkeypatch.setattr(module, "read_decoded", self._read)

    def registry(self, schemas: Mapping[int, WriterSchema]) -> None:
        """Let values name these schemas by id; the load needs the option `registry`."""

        def find(urls: Sequence[str]) -> SimpleNamespace:
            return SimpleNamespace(schema=schemas.__getitem__)

        self._monkeypatch.setattr(values, "registry", find)

    def goes_on(self, **options: Any) -> None:
        """Later rounds have these options, too."""
        self.settings = load_settings([TOPIC], self.folder, self._options | options)

    @contextlib.contextmanager
    def earlier(self, name: str, value: Any) -> Iterator[None]:
        """An earlier version of ottla, in which a name had this value."""
        with self._monkeypatch.context() as patch:
            patch.setattr(name, value)
            yield

    def round(self, payloads: Sequence[bytes | None]) -> None:
        """Load values in one round; raises LakeRefused as the loader does."""
        begin, number = len(self._log), self.committed.number + 1
        self._log += payloads
        plan = LoadPlan(number, (OffsetRange(TOPIC, 0, begin, len(self._log), b"0" * 16),))
        try:
            done = publishable(
                self.settings,
                plan,
                self.committed,
                lambda: f"_ottla/tmp/{number}-{next(self._attempts)}/",
                Here(),
                self._publisher,
                RoundProgress("", 0, None, lambda _: None),
            )
        except BaseException:
            del self._log[begin:]
            raise
        after = self.committed.after(done)
        self._publisher.show(done, after)
        self.committed = after
        self.letters += [reason for name in done.dead for reason in self._reasons(name)]

    def _read(
        self, span: OffsetRange, *_: object, columns: Sequence[str] = NAMES, **__: object
    ) -> Iterator[DecodedRange]:
        mine = list(range(span.start, span.end))
        held: dict[str, list[Any]] = {
            "key": [b"k%d" % at for at in mine],
            "value": self._log[span.start : span.end],
            "headers": [None for _ in mine],
            "partition": [span.partition for _ in mine],
            "offset": mine,
            "timestamp": [AT for _ in mine],
        }
        arrays = [pa.array(held[name], TYPES[name]) for name in columns]
        yield DecodedRange(pa.RecordBatch.from_arrays(arrays, list(columns)), len(mine))

    def _reasons(self, name: str) -> list[str]:
        return list(pa.ipc.open_file(self.store.open_input(name)).read_all().column("reason").to_pylist())
