"""A pipeline runs: every part in a process of its own, begun again when it is killed, and all records come through."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.ports import free_port

from ottla.client.registry_client import RegistryClient
from ottla.testing import TestBroker

APP = """
from ottla.streams import TEXT, StreamsBuilder

def topology():
    builder = StreamsBuilder(value=TEXT)
    builder.stream("lines").map_values(str.upper).to("shouted")
    return builder.build()
"""
FILE = """
pipeline: shouts
cluster: {{start: true, port: {port}}}
topics:
  lines: {{value: text}}
  shouted: {{value: text}}
  typed: {{value: typed.avsc}}
connectors:
  lines-in: {{connector.class: FileStreamSource, topic: lines, file: {folder}/in.txt, {text}}}
  shouts-out: {{connector.class: FileStreamSink, topics: shouted, file: {folder}/out.txt, {text}}}
streams:
  shout: {{app: app.py}}
lakes:
  all: {{topics: lines, to: lake, every: 500ms, values: text, on: local}}
programs:
  first: {{run: python first.py}}
  waits: {{run: python waits.py, after: first}}
mirrors:
  away: {{file: mm2.properties}}
alerts:
  many: {{topic: lines, records: 5, every: 1s}}
"""
PROGRAMS = {
    "first.py": "import os, pathlib\npathlib.Path('first.txt').write_text(os.environ['OTTLA_BOOTSTRAP_SERVERS'])\n",
    "waits.py": "import pathlib, signal\nassert pathlib.Path('first.txt').exists()\nsignal.pause()\n",
}
MIRROR = """
clusters = us, eu
us.bootstrap.servers = localhost:{port}
eu.bootstrap.servers = {away}
us->eu.enabled = true
us->eu.topics = shouted
emit.heartbeats.enabled = false
refresh.topics.interval.seconds = 1
"""
TEXT = ", ".join(f"{side}.converter: org.apache.kafka.connect.storage.StringConverter" for side in ("key", "value"))


class Run:
    """The program, its folder, and what it has said."""

    def __init__(self, folder: Path, away: str) -> None:
        self.folder, self.log, port = folder, folder / "run.log", free_port()
        for name, program in PROGRAMS.items():
            (folder / name).write_text(program, encoding="utf-8")
        (folder / "typed.avsc").write_text('{"type": "record", "name": "typed", "fields": []}', encoding="utf-8")
        (folder / "mm2.properties").write_text(MIRROR.format(port=port, away=away), encoding="utf-8")
        (folder / "app.py").write_text(APP, encoding="utf-8")
        (folder / "in.txt").touch()
        text = FILE.format(port=port, folder=folder, text=TEXT)
        (folder / "shouts.yaml").write_text(text, encoding="utf-8")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ottla", "pipeline", "run", folder / "shouts.yaml"],
            stdout=self.log.open("wb"), stderr=subprocess.STDOUT,
        )  # fmt: skip

    def wait(self, condition: Callable[[], bool]) -> None:
        until = time.monotonic() + 240
        while not condition():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < until, self.log.read_text()
            time.sleep(0.1)

    def says(self, line: str) -> bool:
        return re.search(line, self.log.read_text()) is not None

    def write(self, *lines: str) -> None:
        with (self.folder / "in.txt").open("a") as file:
            file.writelines(f"{line}\n" for line in lines)

    def out(self) -> list[str]:
        path = self.folder / "out.txt"
        return path.read_text().split() if path.exists() else []

    def has_out(self, line: str) -> bool:
        return line in self.out()

    def child(self, *words: str) -> int:
        """The process whose command line has these words."""
        for pid in Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split():
            command = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
            if list(words) in (command[3:5], command[1:2]):
                return int(pid)
        raise AssertionError(f"no child runs {words}")


@pytest.fixture
def away() -> Iterator[TestBroker]:
    with TestBroker() as broker:
        yield broker


@pytest.fixture
def run(tmp_path: Path, away: TestBroker) -> Iterator[Run]:
    started = Run(tmp_path, away.bootstrap_servers)
    yield started
    started.process.send_signal(signal.SIGTERM)
    try:
        assert started.process.wait(120) == 0, started.log.read_text()
    finally:
        started.process.kill()


KILLED = {
    ("streams", "run"): "stream shout",
    ("lake", "load"): "lake all",
    ("connect", "start"): "worker",
    ("mirror", "start"): "mirror away",
    ("waits.py",): "program waits",
}
"""The words of each part's command line, and the part: a connector's is the worker."""


def test_every_kind_of_part_may_be_killed_once_and_no_line_is_lost(run: Run, away: TestBroker) -> None:
    run.write("one", "two")
    run.wait(lambda: set(run.out()) == {"ONE", "TWO"})
    run.wait(lambda: run.says(r"program waits +running"))
    for number, (words, label) in enumerate(KILLED.items()):
        os.kill(run.child(*words), signal.SIGKILL)
        run.wait(partial(run.says, rf"{label} +restarting: ended with signal 9"))
        run.write(f"after{number}")
        run.wait(partial(run.has_out, f"AFTER{number}"))
    status = subprocess.run(
        [sys.executable, "-m", "ottla", "pipeline", "status", run.folder / "shouts.yaml", "--format", "json"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    found = json.loads(status.stdout)
    assert found["parts"]["broker"] == "running"
    assert found["notes"]["lines"].startswith("7 records")
    written = {"one", "two", *(f"after{number}" for number in range(len(KILLED)))}
    run.wait(lambda: lake_lines(run.folder) == written)
    assert {(each.value or b"").decode().lower() for each in away.records("us.shouted", at_least=7)} == written
    assert (run.folder / "first.txt").read_text() == found["bootstrap"]
    assert RegistryClient((found["registry"],)).latest("typed-value").version == 1
    run.wait(lambda: run.says("alert many +.*lines"))


def lake_lines(folder: Path) -> set[str]:
    import pyarrow.parquet as pq

    files = [path for path in (folder / "lake").rglob("*.parquet") if "_ottla" not in path.parts]
    return {value for path in files for value in pq.read_table(path)["value"].to_pylist()}
