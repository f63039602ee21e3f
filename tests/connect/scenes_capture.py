"""Scenes of `make connect-campaign`: change capture from one table over a topic into another table of the same server.

Where the other side fails, the whole database server is killed and started again.
"""

from __future__ import annotations

import contextlib
import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.connect import mariadb_server, postgres_server, scenes_cdc, scenes_maria
from tests.connect.scenes import JSON, Config, Scene, committed

MARKED = 1_000_000
"""Rows from this id on show how far the capture has come; the changes of the others are random."""
TOGETHER = 15
"""The most changes of a transaction."""
Row = tuple[Any, ...]


class _Capture(Scene):
    """Changes of a table: the fed ones are a marked row behind each transaction of random changes."""

    support, exact_sink = "requested", True
    server_module: ModuleType
    pipeline_module: ModuleType

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._ending = contextlib.ExitStack()
        self._server = self._ending.enter_context(self.server_module.a_server())
        self._pipeline = self.pipeline_module.prepared(self._server, "", self.folder, self.name)
        self._draw = random.Random(self.name)
        self._pipeline.change(self._draw, 60)  # these are read by the snapshot

    def connectors(self) -> tuple[Config, Config]:
        source, sink = (
            {name: str(value).replace("\\\\", "\\") for name, value in each.items() if name != "name"}
            for each in self._pipeline.connectors  # as property files have them
        )
        self.topic = sink["topics"]
        converters = {"key.converter": JSON, "value.converter": JSON}
        return source | converters, sink | converters

    def feed(self, piece: Sequence[int]) -> None:
        for begin in range(0, len(piece), TOGETHER):
            self._pipeline.change(self._draw, min(TOGETHER, len(piece) - begin))
            key = MARKED + piece[begin]
            self._pipeline.ask(self._pipeline.here, f"INSERT INTO item (id, n) VALUES ({key}, 0)")
            self.fed.append(str(key))

    def arrived(self) -> list[str]:
        return [str(each[0]) for each in self._pipeline.ask(self._pipeline.there, _MARKED_ROWS)]

    def is_complete(self) -> bool:
        return self._rows(self._pipeline.here) == self._rows(self._pipeline.there)

    def differences(self, bootstrap: str) -> list[str]:
        """Changes that are in the topic more than once, and rows that differ. Rows of the snapshot may come again."""
        here, there = self._rows(self._pipeline.here), self._rows(self._pipeline.there)
        rows = sum((Counter(map(repr, here)) - Counter(map(repr, there))).values())
        strange = sum((Counter(map(repr, there)) - Counter(map(repr, here))).values())
        events = [json.loads(each.value)["payload"] for each in committed(bootstrap, self.topic) if each.value]
        twice = {place: count for place, count in Counter(map(_place, events)).items() if place and count > 1}
        found = [f"{len(twice)} changes are in the topic more than once, such as {list(twice)[:3]}"] if twice else []
        if not any(_place(each) for each in events):
            found.append("the topic has no change")
        if rows or strange or not here:
            found.append(f"{rows} of {len(here)} rows are missing in the other table, {strange} are strange there")
        return found

    @contextlib.contextmanager
    def away(self) -> Iterator[None]:
        self._server.stop()
        try:
            yield
        finally:
            self._server.start()

    def close(self) -> None:
        self._ending.close()

    def _rows(self, database: Any) -> list[Row]:
        return list(self._pipeline.ask(database, "SELECT * FROM item ORDER BY id"))


_MARKED_ROWS = f"SELECT id FROM item WHERE id >= {MARKED}"


def _place(event: dict[str, Any]) -> str:
    """The place of a change in the log of its database; empty for a row of the snapshot."""
    source = event["source"]
    if event["op"] == "r":
        return ""
    key = (event["after"] or event["before"])["id"]
    return repr([event["op"], key, *(source.get(name) for name in ("lsn", "file", "pos", "row"))])


class Postgres(_Capture):
    """From PostgreSQL to PostgreSQL."""

    name, server_module, pipeline_module = "postgres", postgres_server, scenes_cdc

    @classmethod
    def lacks(cls) -> str:
        return "" if postgres_server.programs() else "PostgreSQL"


class MariaDb(_Capture):
    """From MariaDB to MariaDB."""

    name, server_module, pipeline_module = "mariadb", mariadb_server, scenes_maria

    @classmethod
    def lacks(cls) -> str:
        return "" if mariadb_server.is_here() else "MariaDB"
