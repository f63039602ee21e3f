"""The place of an event in the binary log, as Debezium's `source` tells it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ottla.connect import data
from ottla.connect.data import OPTIONAL_STRING, Struct, struct
from ottla.connect.plugins.binlog.types import BUILTIN, TEXTS, codec_of, default_of
from ottla.connect.plugins.capture.envelope import SNAPSHOT, VERSION, Offset
from ottla.connect.plugins.capture.shapes import Product
from ottla.connect.plugins.capture.tables import Table

_LONG: Final = data.INT64.but(optional=True)
SOURCE: Final = struct(
    [("version", data.STRING), ("connector", data.STRING), ("name", data.STRING), ("ts_ms", data.INT64),
     ("snapshot", SNAPSHOT), ("db", data.STRING), ("sequence", OPTIONAL_STRING), ("ts_us", _LONG), ("ts_ns", _LONG),
     ("table", OPTIONAL_STRING), ("server_id", data.INT64), ("gtid", OPTIONAL_STRING), ("file", data.STRING),
     ("pos", data.INT64), ("row", data.INT32), ("thread", _LONG), ("query", OPTIONAL_STRING)],
    name="io.debezium.connector.mariadb.Source", version=1,
)  # fmt: skip
"""The schema of `source`."""
MARIADB: Final = Product(SOURCE, codec_of, default_of, TEXTS, BUILTIN)


@dataclass(frozen=True, slots=True)
class LogPlace:
    """The place of an event in the log, or of a snapshot."""

    ts_s: int
    snapshot: str
    file: str
    position: int
    row: int = 0
    server_id: int = 0
    gtid: str | None = None
    query: str | None = None

    def source(self, options: Mapping[str, Any], table: Table | None) -> Struct:
        """The `source` of the event."""
        schema, name = ("", None) if table is None else (table.schema, table.name)
        return Struct(SOURCE, [
            VERSION, "mariadb", options["topic.prefix"], self.ts_s * 1000, self.snapshot, schema, None,
            self.ts_s * 1_000_000, self.ts_s * 1_000_000_000, name, self.server_id, self.gtid, self.file, self.position,
            self.row, None, self.query,
        ])  # fmt: skip


@dataclass(frozen=True, slots=True)
class View:
    """The state of the database that a snapshot shows."""

    file: str
    position: int
    gtids: str
    taken_s: int

    def __str__(self) -> str:
        return f"{self.file}:{self.position}"

    def offset(self, *, completed: bool) -> Offset:
        """The offset of a record of the snapshot."""
        return {**self.place(), "ts_sec": self.taken_s, "snapshot": "INITIAL", "snapshot_completed": completed}

    def place(self) -> Offset:
        """The offset of the place at which the log goes on."""
        found: Offset = {"file": self.file, "pos": self.position}
        return {**found, "gtids": self.gtids} if self.gtids else found

    def origin(self, marker: str) -> LogPlace:
        """The place of a record of the snapshot."""
        return LogPlace(self.taken_s, marker, self.file, self.position)
