"""Topologies of ours, in processes of their own and on Spark, beside Kafka Streams on our broker; exactly once.

Each side has two workers for two partitions, and sends every result: Kafka Streams has two threads and no cache. The
clock runs from the first committed results to the last, so starting is not in it. Markers of transactions count as
results here, about one in a hundred.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from confluent_kafka import Producer

from bench.brokers import ROOT
from bench.lines import Figure, Figures, Line
from bench.rig import Rig
from ottla.client import Admin, TopicPartition
from ottla.client.model import LATEST, IsolationLevel

RECORDS = 600_000
KEYS = 20_000
PARTITIONS = 2
WORKERS = 2
WITHIN_S = 400.0
STEP_S = 0.1
QUIET_S = 5.0
"""The results are all there when none has come for so long."""
LEAST_RESULTS = 0.5
"""A join has no result until the other side has a row, so there are fewer than records."""
MOST_AT_FIRST = 0.5
"""The part of the results that may be there when the clock begins to run: its work is not timed."""
SPARK_BATCHES, SPARK_MOST = 8, 100_000
"""On Spark the results of a batch come at once: so many batches at least, of so many records at most."""
READS = {
    "map_values": "a", "count": "a", "tumbling": "a", "session": "a", "stream_table": "at", "table_table": "ab",
}  # fmt: skip
APPS = ROOT / "bench" / "streams_apps.py"
KAFKA_NAMES = {"map_values": "map"}
_filled: dict[tuple[str, int], str] = {}


def measure(rig: Rig, contestant: str, *, name: str) -> Figures:
    """Run a topology over its whole input."""
    topics = {each: filled(rig, each) for each in READS[name]}
    folder = Path(tempfile.mkdtemp(prefix="streams-", dir=rig.folder))
    address = rig.broker("ottla").address
    application_id = f"race-{folder.name}"
    try:
        with rig.topic("ottla", PARTITIONS) as out, Admin(address) as admin:
            with (folder / "log").open("wb") as log:
                workers = [
                    subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=folder)
                    for command, environment in COMMANDS[contestant](name, address, application_id, out, topics, folder)
                ]
            try:
                records = sum(KEYS if each == "t" else rig.sized(RECORDS) for each in topics)
                found = timed(admin, workers, out, records, folder / "log")
            finally:
                ended(workers)
            if own := [topic for topic in admin.list_topics() if topic.startswith(application_id)]:
                admin.delete_topics(own)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return found


def timed(admin: Admin, workers: list[subprocess.Popen[bytes]], out: str, records: int, log: Path) -> Figures:
    """The rates between the first committed results and the last, by how far the topic of results grew."""
    places = [TopicPartition(out, partition) for partition in range(PARTITIONS)]
    end = time.monotonic() + WITHIN_S
    seen = [(0.0, 0, 0.0)]
    while seen[-1][1] < LEAST_RESULTS * records or time.monotonic() < seen[-1][0] + QUIET_S:
        found = admin.cluster.list_offsets(places, LATEST, IsolationLevel.READ_COMMITTED)
        now = sum(one.offset for one in found.values())
        if any(worker.poll() is not None for worker in workers) or time.monotonic() > end:
            raise RuntimeError(f"{now:,} results of {records:,} records: {log.read_text()[-2_000:]}")
        if now > seen[-1][1]:
            seen.append((time.monotonic(), now, family_cpu_seconds([worker.pid for worker in workers])))
        time.sleep(STEP_S)
    if len(seen) < 3:
        raise RuntimeError("all results came at once, so there is no rate: measure more records")
    (began, first, cpu_before), (finished, last, cpu) = seen[1], seen[-1]
    if first > MOST_AT_FIRST * last:
        raise RuntimeError(f"{first:,} of {last:,} results came at once, so there is no rate: measure more records")
    done = records * (last - first) / last
    return {"records_per_second": done / (finished - began), "records_per_cpu_second": done / (cpu - cpu_before)}


def family_cpu_seconds(roots: list[int]) -> float:
    """The processor time of processes and of all their children: Spark has its workers."""
    children: dict[int, list[int]] = {}
    used: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if folder.name.isdecimal():
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                children.setdefault(int(fields[1]), []).append(int(folder.name))
                used[int(folder.name)] = sum(map(int, fields[11:15]))
    total, waiting = 0, list(roots)
    while waiting:
        each = waiting.pop()
        total += used.get(each, 0)
        waiting += children.get(each, [])
    return total / os.sysconf("SC_CLK_TCK")


def ended(workers: list[subprocess.Popen[bytes]]) -> None:
    for worker in workers:
        worker.send_signal(signal.SIGTERM)
    for worker in workers:
        try:
            worker.wait(60)
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()


def filled(rig: Rig, name: str) -> str:
    """An input topic: `a` and `b` have many records of each key, a millisecond apart; the table `t` has one of each."""
    count = KEYS if name == "t" else rig.sized(RECORDS)
    if (name, count) not in _filled:
        topic = f"race-streams-{name}-{count}"
        address = rig.broker("ottla").address
        with Admin(address) as admin:
            admin.create_topic(topic, PARTITIONS)
        draw, producer = (
            random.Random(name),
            Producer(
                {"bootstrap.servers": address, "partitioner": "murmur2_random", "linger.ms": 20, "batch.size": 500_000}
            ),
        )
        begin = int(time.time() * 1000) - rig.sized(RECORDS) - KEYS
        for number in range(count):
            key = number if name == "t" else draw.randrange(KEYS)
            time_ms = begin if name == "t" else begin + KEYS + number
            while True:
                try:
                    producer.produce(topic, f"value-{number % 1000}", f"key-{key}", timestamp=time_ms)
                    break
                except BufferError:
                    producer.poll(0.1)
        producer.flush()
        _filled[name, count] = topic
    return _filled[name, count]


Command = tuple[list[str], dict[str, str]]


def here(
    name: str, address: str, application_id: str, out: str, topics: Mapping[str, str], folder: Path, *more: str
) -> list[Command]:
    """As users start them: a process for each core."""
    command = [sys.executable, "-m", "ottla.cli.main", "streams", "run", f"{APPS}:{name}", "-b", address]
    environment = {**os.environ, "STREAMS_RACE": json.dumps({**topics, "out": out})}
    return [([*command, "--application-id", application_id, *more], environment)] * (1 if more else WORKERS)


def on_spark(
    name: str, address: str, application_id: str, out: str, topics: Mapping[str, str], folder: Path
) -> list[Command]:
    records = int(topics["a"].rpartition("-")[2])
    most = min(SPARK_MOST, records // SPARK_BATCHES)
    more = ["--on", "spark", "--checkpoint", str(folder / "checkpoint"), "--master", f"local[{WORKERS}]"]
    return here(name, address, application_id, out, topics, folder, *more, "--max-records", str(most))


def kafka_streams(
    name: str, address: str, application_id: str, out: str, topics: Mapping[str, str], folder: Path
) -> list[Command]:
    libs = ROOT / ".cache" / "streams" / "libs"
    if not (libs / "kafka-streams-4.3.1.jar").exists():
        raise RuntimeError("Kafka Streams is not here: run `tools/setup.sh streams-jars`")
    command = ["java", "-Xmx2G", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", f"{libs}/*"]
    command += [str(ROOT / "bench" / "StreamsRace.java"), KAFKA_NAMES.get(name, name), address, application_id]
    command += [str(folder / "state"), str(WORKERS), out, *(f"{each}={topic}" for each, topic in topics.items())]
    return [(command, dict(os.environ))]


COMMANDS = {"ottla": here, "ottla-spark": on_spark, "kafka-streams": kafka_streams}


def line(name: str, title: str, contestant: str, at_least: float) -> Line:
    where = "Spark" if contestant == "ottla-spark" else "two processes"
    return Line(
        f"streams-{name.replace('_', '-')}{'-spark' if contestant == 'ottla-spark' else ''}",
        (
            Figure("records_per_second", f"streams: {title}, {where}", "/s", at_least=at_least),
            Figure("records_per_cpu_second", "  for a second of its processor time", "/s", at_least=at_least),
        ),
        partial(measure, name=name),
        contestants=(contestant, "kafka-streams"),
        rounds=3,
        order=95,
    )


LINES = [
    line(name, title, contestant, at_least)
    for name, title, at_least in (
        ("map_values", "stateless map", 2.0),
        ("count", "count by key", 1.2),
        ("tumbling", "tumbling window", 1.2),
        ("session", "session window", 1.2),
        ("stream_table", "stream-table join", 1.2),
        ("table_table", "table-table join", 1.2),
    )
    for contestant in ("ottla", "ottla-spark")
]
