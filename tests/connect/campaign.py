"""`make connect-campaign`: connectors from a source over a topic into a sink, under kill -9 of workers and broker.

All scenes run at once in a group of two workers that deliver exactly once. While each is fed piece by piece, workers
and the broker are killed, and the other sides fail for a while. In the end each topic holds what its source had,
once, and each sink what its guarantee says. `--minutes M` is another campaign: twenty connectors for so long, of which
one at a time is broken; no other one may notice.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.lake.campaign.processes import BrokerProcess, Stuck, until
from tests.ports import free_port

from ottla.client.model import ConsumedRecord
from ottla.testing.reading import read_topic

STRING = "org.apache.kafka.connect.storage.StringConverter"
JSON = "org.apache.kafka.connect.json.JsonConverter"
AWAY_S = 1.5
"""The time for which another side fails."""
Config = dict[str, Any]


class Scene:
    """A source, a topic and a sink. A piece is a list of numbers, which are the content of its records."""

    name: str
    exact_sink = False
    """True where a record that comes twice changes nothing in the sink."""

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


class Http(Files):
    """Lines of a file into requests."""

    name = "http"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        taken: list[str] = []
        self._taken, self._is_away = taken, threading.Event()
        is_away = self._is_away

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                if not is_away.is_set():
                    taken.extend(body if isinstance(body, list) else [body])
                self.send_response(503 if is_away.is_set() else 200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def connectors(self) -> tuple[Config, Config]:
        source, _ = super().connectors()
        url = f"http://127.0.0.1:{self._server.server_port}/in"
        return source, {
            "connector.class": "HttpSink", "http.url": url, "topics": self.topic, "batch.size": "50",
            "max.retries": "100", "retry.backoff.ms": "100", "retry.backoff.max.ms": "500",
        }  # fmt: skip

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


SCENES: tuple[type[Scene], ...] = (Files, Directory, Databases, Http)
"""A new connector adds its scene here."""


class WorkerProcess:
    """A worker of the group, which comes back after a kill."""

    def __init__(self, folder: Path, name: str, bootstrap: str) -> None:
        properties = {
            "bootstrap.servers": bootstrap, "group.id": "campaign", "config.storage.topic": "campaign-configs",
            "status.storage.topic": "campaign-status", "offset.storage.topic": "campaign-offsets",
            "offset.storage.partitions": "2", "status.storage.partitions": "1", "key.converter": STRING,
            "value.converter": STRING, "session.timeout.ms": "6000", "heartbeat.interval.ms": "500",
            "offset.flush.interval.ms": "500", "exactly.once.source.support": "enabled",
            "listeners": f"http://127.0.0.1:{free_port()}", "consumer.session.timeout.ms": "6000",
        }  # fmt: skip
        self.url, self._log = properties["listeners"], folder / f"{name}.log"
        file = folder / f"{name}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        self._command = [sys.executable, "-m", "ottla", "connect", "start", str(file)]
        self.start()

    def start(self) -> None:
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(self._command, stdout=log, stderr=log)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(60)
        self.process.kill()
        self.process.wait()

    def ask(self, path: str, body: object = None, method: str = "GET") -> Any:
        """The answer of a call; None where there is none."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{path}", data, {"content-type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                content = answer.read()
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return None
        return json.loads(content) if answer.headers["content-type"] == "application/json" else content.decode()


@dataclass
class Rig:
    """A broker and two workers in a folder."""

    folder: Path
    told: Callable[[str], object] = print
    workers: list[WorkerProcess] = field(default_factory=list)

    def __enter__(self) -> Rig:
        self.broker = BrokerProcess(self.folder, free_port())
        self.workers = [WorkerProcess(self.folder, f"worker-{number}", self.broker.bootstrap) for number in range(2)]
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.stop()
        self.broker.kill()

    def create(self, name: str, config: Config) -> None:
        """Make a connector, by any worker."""
        path = f"/connectors/{name}/config"
        until(lambda: self.workers[0].ask(path, {"name": name, **config}, "PUT"), f"the connector {name}")


def siege(rig: Rig, scenes: Sequence[Scene], *, kills: int, rows: int, chance: random.Random) -> Counter[str]:
    """Feed all scenes piece by piece, with a fault amid each piece; what was done."""
    done: Counter[str] = Counter()
    size, next_row = max(rows // (kills + 1), 1), 1
    for _ in range(kills):
        for scene in scenes:
            scene.feed(range(next_row, next_row + size))
        next_row += size
        until(partial(moves, scenes, [len(scene.arrived()) for scene in scenes]), "records on their way")
        fault = chance.choice(("worker", "worker", "broker", "other side"))
        done[fault] += 1
        rig.told(f"{fault}: {[f'{len(scene.arrived())} of {len(scene.fed)}' for scene in scenes]}")
        if fault == "worker":
            worker = chance.choice(rig.workers)
            worker.kill()
            worker.start()
        elif fault == "broker":
            rig.broker.kill()
            rig.broker.start()
        else:
            with contextlib.ExitStack() as away:
                for scene in scenes:
                    away.enter_context(scene.away())
                time.sleep(AWAY_S)
    for scene in scenes:
        scene.feed(range(next_row, next_row + size))
    return done


def moves(scenes: Sequence[Scene], before: Sequence[int]) -> bool:
    """True once a sink has more than before."""
    return any(len(scene.arrived()) > at for scene, at in zip(scenes, before, strict=True))


def kills(folder: Path, *, names: Sequence[str], kills: int, rows: int, seed: int) -> list[str]:
    """Run the scenes; the differences."""
    scenes = [kind(folder) for kind in SCENES if not names or kind.name in names]
    differences: list[str] = []
    with Rig(folder) as rig:
        for scene in scenes:
            source, sink = scene.connectors()
            rig.create(f"{scene.name}-source", source | {"exactly.once.support": "required"})
            rig.create(f"{scene.name}-sink", sink)
        done = siege(rig, scenes, kills=kills, rows=rows, chance=random.Random(seed))
        for scene in scenes:
            with contextlib.suppress(Stuck):
                until(scene.is_complete, f"all of {scene.name}")
        for scene in scenes:
            found = scene.differences(rig.broker.bootstrap)
            rig.told(f"{scene.name}: {len(scene.fed)} records, {'equal' if not found else '; '.join(found)}")
            differences += [f"{scene.name}: {each}" for each in found]
            scene.close()
        rig.told(f"faults: {dict(done)}")
    return differences


COUNT = 20


class Neighbours:
    """Twenty connectors that read a file each."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self.files = [rig.folder / f"in-{number}.txt" for number in range(COUNT)]
        self.fed: list[list[str]] = [[] for _ in self.files]

    def create(self) -> None:
        for number, file in enumerate(self.files):
            file.touch()
            config = {"connector.class": "FileStreamSource", "file": str(file), "topic": f"topic-{number}"}
            self._rig.create(f"c{number}", config)
            self.feed(number)
        until(partial(self.have, range(COUNT)), "the first line of each")

    def feed(self, number: int) -> None:
        line = f"line {len(self.fed[number])}"
        with self.files[number].open("a") as file:
            file.write(f"{line}\n")
        self.fed[number].append(line)

    def have(self, numbers: Sequence[int]) -> bool:
        """True if the topics of these connectors hold their lines, once and in order."""
        return all(self._read(number) == self.fed[number] for number in numbers)

    def fails(self, number: int) -> bool:
        """True if no task of the connector runs."""
        status = self._rig.workers[0].ask(f"/connectors/c{number}/status")
        return bool(status) and not any(task["state"] == "RUNNING" for task in status["tasks"])

    def disturb(self, victim: int) -> None:
        """Break one, have the others work meanwhile, and mend it."""
        file, others = self.files[victim], [number for number in range(COUNT) if number != victim]
        aside = file.with_suffix(".aside")
        file.rename(aside)
        file.mkdir()  # the task fails to open it, again and again
        until(partial(self.fails, victim), "the fault of the victim")
        for number in others:
            self.feed(number)
        until(partial(self.have, others), "the others' lines")
        file.rmdir()
        aside.rename(file)
        self.feed(victim)
        until(partial(self.have, [victim]), "the victim's line")

    def _read(self, number: int) -> list[str]:
        found = committed(self._rig.broker.bootstrap, f"topic-{number}")
        return [(record.value or b"").decode() for record in found]


def neighbours(folder: Path, *, minutes: float, seed: int) -> list[str]:
    """Twenty connectors, of which one at a time is broken and mended: those that noticed."""
    chance, end = random.Random(seed), time.monotonic() + 60 * minutes
    broken: list[int] = []
    with Rig(folder) as rig:
        beside = Neighbours(rig)
        beside.create()
        while time.monotonic() < end:
            broken.append(chance.randrange(COUNT // 2))  # the other half is never broken, and must never be restarted
            beside.disturb(broken[-1])
        restarts = {name: count for worker in rig.workers for name, count in restarted(worker).items()}
        rig.told(f"{len(broken)} faults in {len(set(broken))} connectors, {sum(map(len, beside.fed))} lines")
    noticed = [f"c{number}-0" for number in range(COUNT) if number not in broken and restarts[f"c{number}-0"]]
    return [f"{name} was restarted {restarts[name]} times" for name in noticed]


def restarted(worker: WorkerProcess) -> dict[str, int]:
    """The restarts of each task of a worker."""
    text, start = worker.ask("/metrics") or "", 'ottla_job_restarts_total{job="'
    lines = [line.removeprefix(start) for line in text.splitlines() if line.startswith(start)]
    return {line.split('"')[0]: int(line.rsplit(" ", 1)[1]) for line in lines}


def main() -> int:
    parser = argparse.ArgumentParser(prog="make connect-campaign", description=__doc__)
    parser.add_argument("--scene", action="append", choices=[kind.name for kind in SCENES], help="these alone")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--rows", type=int, default=20_000, help="of each scene")
    parser.add_argument("--minutes", type=float, default=0, help="twenty connectors for so long, one broken at a time")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="connect-campaign-") as made:
        folder = Path(made)
        if options.minutes:
            found = neighbours(folder, minutes=options.minutes, seed=options.seed)
        else:
            found = kills(folder, names=options.scene or (), kills=options.kills, rows=options.rows, seed=options.seed)
    print("\n".join(found) or "no differences")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
