"""Kafka's connectors for files, in a worker of ours and in Apache Kafka's own, alone and over our broker.

The clock runs from the first record or line at the other end to the last; so does the worker's processor time.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.brokers import ROOT, kafka_libs, process_cpu_seconds, resident_mb
from bench.lines import Figure, Figures, Line
from bench.rig import Rig
from ottla.client.blocking.cluster import Cluster
from ottla.client.model import LATEST
from ottla.kernel.ids import TopicPartition

RECORDS = 600_000
LINE = b"x" * 199 + b"\n"
NAME = "race"
"""The connector's name."""
STRING = "org.apache.kafka.connect.storage.StringConverter"
WITHIN_S = 240.0
STEP_S = 0.02
INSERT = {
    "transforms": "hoist,insert",
    "transforms.hoist.type": "org.apache.kafka.connect.transforms.HoistField$Value",
    "transforms.hoist.field": "line",
    "transforms.insert.type": "org.apache.kafka.connect.transforms.InsertField$Value",
    "transforms.insert.static.field": "from",
    "transforms.insert.static.value": "here",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}


def source(rig: Rig, contestant: str, *, more: dict[str, str]) -> Figures:
    """Lines of a file into a topic."""
    count = rig.sized(RECORDS)
    with rig.topic("ottla") as topic, Scene(rig) as scene, Cluster(rig.broker("ottla").address) as cluster:
        place = TopicPartition(topic, 0)
        (scene.folder / "in.txt").write_bytes(LINE * count)
        connector = {"connector.class": "FileStreamSource", "file": scene.folder / "in.txt", "topic": topic, **more}
        return scene.run(contestant, connector, lambda: cluster.list_offsets([place], LATEST)[place].offset, count)


def sink(rig: Rig, contestant: str) -> Figures:
    """A topic into lines of a file."""
    count = rig.sized(RECORDS)
    with rig.topic("ottla") as topic, Scene(rig) as scene:
        rig.drive("ottla", "produce", topic=topic, records=count, size=len(LINE) - 1, acks="all")
        target = scene.folder / "out.txt"
        connector = {"connector.class": "FileStreamSink", "file": target, "topics": topic}
        return scene.run(
            contestant, connector, lambda: target.stat().st_size // len(LINE) if target.exists() else 0, count
        )


class Scene:
    """A folder, and a worker alone that runs one connector there."""

    def __init__(self, rig: Rig) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="connect-", dir=rig.folder))
        self._rig = rig

    def __enter__(self) -> Scene:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, contestant: str, connector: dict[str, object], done: Callable[[], int], count: int) -> Figures:
        """Run the connector until so many records are at the other end."""
        jars = list((ROOT / ".cache" / "streams" / "libs").glob("connect-file-*.jar"))
        with self.worker(contestant, connector, jars) as process:
            return timed(process, done, count)

    @contextmanager
    def worker(
        self, contestant: str, connector: dict[str, object], plugins: Sequence[Path], port: int | None = None
    ) -> Iterator[subprocess.Popen[bytes]]:
        """A worker that runs the connector, with its REST interface at a port where one is given.

        `plugins` are jars of Kafka's worker, or folders of jars that belong together.
        """
        worker = {
            "bootstrap.servers": self._rig.broker("ottla").address, "key.converter": STRING,
            "value.converter": STRING, "offset.storage.file.filename": self.folder / "offsets",
            "offset.flush.interval.ms": 1000,
        }  # fmt: skip
        if contestant == "kafka":
            folder = self.folder / "plugins"
            folder.mkdir()
            for each in plugins:
                (folder / (each.name if each.is_file() else each.parent.name)).symlink_to(each.resolve())
            worker |= {"plugin.path": folder, "plugin.discovery": "service_load"}
        if contestant == "kafka" or port is not None:
            worker["listeners"] = f"http://127.0.0.1:{port or 0}"
        files = [self._written("worker", worker), self._written("connector", {"name": NAME, **connector})]
        with (self.folder / "worker.log").open("wb") as log:
            process = subprocess.Popen([*COMMANDS[contestant](), *files], stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)

    def _written(self, name: str, properties: dict[str, object]) -> str:
        path = self.folder / f"{name}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        return str(path)


COMMANDS: dict[str, Callable[[], list[str]]] = {
    "ottla": lambda: [sys.executable, "-m", "ottla.cli.main", "connect", "start"],
    "kafka": lambda: ["java", "-Xms256M", "-Xmx2G", "-cp", f"{kafka_libs()}/*",
                      "org.apache.kafka.connect.cli.ConnectStandalone"],
}  # fmt: skip
"""As users start them: Kafka's script gives its worker this heap."""


def timed(process: subprocess.Popen[bytes], done: Callable[[], int], count: int) -> Figures:
    """The rate, the processor time and the memory of a worker, from its first records at the other end to the last."""
    end = time.monotonic() + WITHIN_S
    first, began, cpu = 0, 0.0, 0.0
    while (now := done()) < count:
        if process.poll() is not None or time.monotonic() > end:
            raise RuntimeError(f"{now:,} of {count:,} records arrived; the worker's exit status: {process.returncode}")
        if not first and now:
            first, began, cpu = now, time.monotonic(), process_cpu_seconds(process.pid)
        time.sleep(STEP_S)
    moved, seconds = count - first, time.monotonic() - began
    used = process_cpu_seconds(process.pid) - cpu
    return {
        "records_per_second": moved / seconds,
        "records_per_cpu_second": moved / used,
        "peak_mb": resident_mb(process.pid, "VmHWM"),
    }


def line(
    name: str, title: str, measure: Callable[[Rig, str], Figures], at_least: float, at_most_memory: float | None = 1 / 8
) -> Line:
    """A line with wanted ratios of its rates and of the worker's memory: light connectors take an eighth."""
    return Line(
        f"connect-{name}",
        (
            Figure("records_per_second", title, "/s", at_least=at_least),
            Figure("records_per_cpu_second", "  for a second of the worker's processor time", "/s", at_least=at_least),
            Figure("peak_mb", "  memory of the worker, at most", "MB", more_is_better=False, at_most=at_most_memory),
        ),
        measure,
        rounds=3,
        order=90,
    )


LINES = [
    line("file-source", "connect: lines of a file", lambda rig, one: source(rig, one, more={}), 1.0),
    line("file-source-json", "connect: lines of a file, two transformations, JSON",
         lambda rig, one: source(rig, one, more=INSERT), 0.7),
    line("file-sink", "connect: a topic into a file", sink, 1.0),
]  # fmt: skip
