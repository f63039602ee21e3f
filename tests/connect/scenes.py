"""Scenes of `make connect-campaign`: a source, a topic and a sink, which are fed piece by piece.

Those that need a server of their own are in the modules beside this one.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ottla.client.model import ConsumedRecord
from ottla.testing.reading import read_topic

STRING = "org.apache.kafka.connect.storage.StringConverter"
JSON = "org.apache.kafka.connect.json.JsonConverter"
Config = dict[str, Any]


class Scene:
    """A source, a topic and a sink. A piece is a list of numbers, which are the content of its records."""

    name: str
    exact_sink = False
    """True where a record that comes twice changes nothing in the sink."""
    support = "required"
    """exactly.once.support of the source."""

    @classmethod
    def lacks(cls) -> str:
        """The program that this machine lacks for the scene; empty if it can run."""
        return ""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / self.name
        self.folder.mkdir()
        self.topic = f"{self.name}-topic"
        self.fed: list[str] = []

    def connectors(self) -> tuple[Config, Config]:
        """The configurations of the source and of the sink."""
        raise NotImplementedError

    def feed(self, piece: Sequence[int]) -> None:
        """Let the source have more records."""
        raise NotImplementedError

    def arrived(self) -> list[str]:
        """The records in the sink."""
        raise NotImplementedError

    def count(self) -> int:
        """The number of records that have arrived, as cheaply as it can be told."""
        return len(self.arrived())

    def in_topic(self, value: bytes) -> str:
        """The content of a record of the topic."""
        return value.decode()

    @contextlib.contextmanager
    def away(self) -> Iterator[None]:
        """Let the other side fail; by default there is none that could."""
        yield

    def close(self) -> None:
        """End what the other side runs."""

    def is_complete(self) -> bool:
        """True once all that was fed is in the sink."""
        return set(self.fed) <= set(self.arrived())

    def differences(self, bootstrap: str) -> list[str]:
        """The differences in the end."""
        values = [self.in_topic(record.value or b"") for record in committed(bootstrap, self.topic)]
        found = [f"the topic: {each}" for each in compared(self.fed, values, exact=True)]
        return found + [f"the sink: {each}" for each in compared(self.fed, self.arrived(), exact=self.exact_sink)]


def compared(wanted: Sequence[str], found: Sequence[str], *, exact: bool) -> list[str]:
    """Records that are missing, strange, or there more than once where they may not be."""
    missing, strange = sorted(set(wanted) - set(found)), sorted(set(found) - set(wanted))
    twice = sorted(each for each, count in Counter(found).items() if count > 1) if exact else []
    told = (("missing", missing), ("strange", strange), ("more than once", twice))
    return [f"{len(some)} records are {what}, such as {some[:3]}" for what, some in told if some]


def committed(bootstrap: str, topic: str) -> list[ConsumedRecord]:
    """The records of a topic as readers of committed ones see them."""
    return read_topic(bootstrap, topic, at_least=0, isolation_level="read_committed", timeout=60)


class Files(Scene):
    """Lines of a file into lines of a file."""

    name = "file"

    def connectors(self) -> tuple[Config, Config]:
        source, target = self.folder / "in.txt", self.folder / "out.txt"
        source.touch()
        return (
            {"connector.class": "FileStreamSource", "file": str(source), "topic": self.topic, "batch.size": "50"},
            {"connector.class": "FileStreamSink", "file": str(target), "topics": self.topic},
        )

    def feed(self, piece: Sequence[int]) -> None:
        with (self.folder / "in.txt").open("a") as file:
            file.writelines(f"line {number}\n" for number in piece)
        self.fed += [f"line {number}" for number in piece]

    def arrived(self) -> list[str]:
        target = self.folder / "out.txt"
        return target.read_text().splitlines() if target.exists() else []


class Directory(Files):
    """Files of a directory, archived once they are in the topic, into lines of a file."""

    name = "directory"

    def connectors(self) -> tuple[Config, Config]:
        (self.folder / "in").mkdir()
        source = {
            "connector.class": "DirectorySource", "input.directory": str(self.folder / "in"), "topic": self.topic,
            "format": "lines", "poll.interval.ms": "100", "batch.size": "50", "after": "archive",
            "archive.directory": str(self.folder / "old"),
        }  # fmt: skip
        return source, {"connector.class": "FileStreamSink", "file": str(self.folder / "out.txt"), "topics": self.topic}

    def feed(self, piece: Sequence[int]) -> None:
        lines = [f"row {number}" for number in piece]
        hidden = self.folder / "in" / f".{piece[0]}"
        hidden.write_text("".join(f"{line}\n" for line in lines))
        hidden.rename(self.folder / "in" / f"{piece[0]:08d}.txt")
        self.fed += lines


class Databases(Scene):
    """Rows of a table, by their growing id, into rows of a table, by the same key."""

    name, exact_sink = "jdbc", True

    def connectors(self) -> tuple[Config, Config]:
        self.topic = f"{self.name}-rows"
        with self._open("a") as database:
            database.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, v TEXT)")
        converters = {"key.converter": JSON, "value.converter": JSON}
        source = {
            "connector.class": "JdbcSource", "connection.url": f"jdbc:sqlite:{self.folder}/a", "mode": "incrementing",
            "topic.prefix": f"{self.name}-", "poll.interval.ms": "100", **converters,
        }  # fmt: skip
        sink = {
            "connector.class": "JdbcSink", "connection.url": f"jdbc:sqlite:{self.folder}/b", "topics": self.topic,
            "table.name.format": "copy", "auto.create": "true", "insert.mode": "upsert", "pk.mode": "record_value",
            "pk.fields": "id", "max.retries": "100", "retry.backoff.ms": "200", **converters,
        }  # fmt: skip
        return source, sink

    def feed(self, piece: Sequence[int]) -> None:
        with self._open("a") as database:
            database.executemany("INSERT INTO rows VALUES (?,?)", [(number, f"row {number}") for number in piece])
        self.fed += [str(number) for number in piece]

    def arrived(self) -> list[str]:
        with self._open("b") as database:
            if not database.execute("SELECT 1 FROM sqlite_master WHERE name='copy'").fetchall():
                return []
            return [str(row[0]) for row in database.execute("SELECT id FROM copy WHERE v = 'row ' || id")]

    def in_topic(self, value: bytes) -> str:
        return str(json.loads(value)["payload"]["id"])

    @contextlib.contextmanager
    def away(self) -> Iterator[None]:
        with self._open("b") as database:
            database.execute("BEGIN EXCLUSIVE")
            yield

    @contextlib.contextmanager
    def _open(self, name: str) -> Iterator[sqlite3.Connection]:
        connection = sqlite3.connect(self.folder / name, timeout=60)
        try:
            with connection:
                yield connection
        finally:
            connection.close()


class Http(Scene):
    """Records of a web service, asked for by their growing number, into requests."""

    name, support = "http", "requested"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        taken: list[str] = []
        self._taken, self._is_away = taken, threading.Event()
        is_away, fed = self._is_away, self.fed

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                if not is_away.is_set():
                    taken.extend(str(each["id"]) for each in body)
                self._answer(b"")

            def do_GET(self) -> None:
                behind = int(parse_qs(urlsplit(self.path).query)["behind"][0])
                some = fed[behind : behind + 50]  # the records are numbered from 1, and this many were read
                self._answer(json.dumps([{"id": int(each)} for each in some]).encode())

            def _answer(self, content: bytes) -> None:
                self.send_response(503 if is_away.is_set() else 200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def connectors(self) -> tuple[Config, Config]:
        url = f"http://127.0.0.1:{self._server.server_port}"
        converter = {"value.converter": JSON, "value.converter.schemas.enable": "false"}
        source = {
            "connector.class": "HttpSource", "http.url": f"{url}/?behind=${{offset}}", "topic": self.topic,
            "offset.mode": "field", "offset.pointer": "/id", "offset.initial": "0", "poll.interval.ms": "100",
            "max.retries": "100", **converter,
        }  # fmt: skip
        return source, {
            "connector.class": "HttpSink", "http.url": f"{url}/in", "topics": self.topic, "batch.size": "50",
            "max.retries": "100", "retry.backoff.ms": "100", "retry.backoff.max.ms": "500", **converter,
        }  # fmt: skip

    def feed(self, piece: Sequence[int]) -> None:
        self.fed += [str(number) for number in piece]

    def in_topic(self, value: bytes) -> str:
        return str(json.loads(value)["id"])

    def arrived(self) -> list[str]:
        return list(self._taken)

    @contextlib.contextmanager
    def away(self) -> Iterator[None]:
        self._is_away.set()
        try:
            yield
        finally:
            self._is_away.clear()

    def close(self) -> None:
        self._server.shutdown()
