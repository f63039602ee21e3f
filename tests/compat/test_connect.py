"""A stock Connect worker with exactly-once source: each line of a file arrives once, through kill -9 of the worker."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
import reaching
from apache_kafka import jars_folder
from exchange import BROKERS, by_librdkafka, until
from java_programs import JavaProgram, properties_text
from streams_jars import needs_streams_jars, streams_jars
from tests.ports import free_port

from ottla.client.blocking.admin import Admin
from ottla.connect.worker import Worker as OurWorker
from ottla.connect.worker import WorkerSettings

pytestmark = [pytest.mark.compat, pytest.mark.kafka, pytest.mark.timeout(1200), needs_streams_jars]
STRING = "org.apache.kafka.connect.storage.StringConverter"
PIECES = 30
LINES = 50
"""Lines in a piece. A batch of the connector has room for all: it reads lines left over only when the file grows."""
KILLS = (10, 20)
PATIENCE_S = 300.0


class Worker:
    """A single distributed worker, reached over HTTP."""

    def __init__(self, bootstrap: str, name: str, folder: Path) -> None:
        self.url = f"http://127.0.0.1:{free_port()}"
        plugins = folder / "plugins"
        plugins.mkdir()
        for jar in streams_jars().glob("connect-file-*.jar"):
            (plugins / jar.name).symlink_to(jar.resolve())
        settings = {
            "bootstrap.servers": bootstrap, "group.id": f"{name}-workers", "listeners": self.url,
            "exactly.once.source.support": "enabled", "plugin.path": plugins, "plugin.discovery": "service_load",
            "key.converter": STRING, "value.converter": STRING,
            "session.timeout.ms": 6000, "heartbeat.interval.ms": 1000, "scheduled.rebalance.max.delay.ms": 0,
        }  # fmt: skip
        for kind in ("config", "offset", "status"):
            settings |= {
                f"{kind}.storage.topic": f"{name}-{kind}",
                f"{kind}.storage.replication.factor": BROKERS,
                f"{kind}.storage.partitions": 1,
            }
        del settings["config.storage.partitions"]  # always one
        for whose in (
            "",
            "producer.",
            "consumer.",
            "admin.",
        ):  # the clients of connectors do not have the worker's login
            settings |= {f"{whose}{key}": value for key, value in reaching.java().items()}
        properties = folder / "worker.properties"
        properties.write_text(properties_text(settings))
        command = ["org.apache.kafka.connect.cli.ConnectDistributed", str(properties)]
        class_path = ":".join([f"{jars_folder()}/*", *map(str, streams_jars().glob("slf4j-simple-*.jar"))])
        self.program = JavaProgram(class_path, command, folder / "worker.log")

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Send a request; return the answer, or None if there is none yet or it is an error."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{path}", data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.load(answer)
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return None


@pytest.fixture
def worker(bootstrap: str, name: str, tmp_path: Path) -> Iterator[Worker]:
    made = Worker(bootstrap, name, tmp_path)
    with made.program:
        yield made


def test_lines_of_a_file_arrive_once_through_kills_of_the_worker(
    bootstrap: str, name: str, worker: Worker, tmp_path: Path
) -> None:
    with Admin(bootstrap, security=reaching.java()) as admin:
        admin.create_topic(name, 1, BROKERS)
    file = tmp_path / "lines.txt"
    connector = {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "tasks.max": "1", "file": str(file), "topic": name,
        "exactly.once.support": "required", "transaction.boundary": "poll",
    }  # fmt: skip
    file.touch()
    accepted = f"/connectors/{name}/config"
    until(lambda: worker.ask("PUT", accepted, connector), what="the connector accepted", within_s=PATIENCE_S)
    written: list[bytes] = []
    target = Target(bootstrap, name)
    for number in range(PIECES):
        before = len(written)
        lines = [b"line %d of piece %d" % (line, number) for line in range(LINES)]
        with file.open("ab") as output:
            output.writelines(line + b"\n" for line in lines)
        written += lines
        if number in KILLS:
            worker.program.kill()
            worker.program.start()
        target.wait_for(before, worker)  # the next piece is written while this one is under way
    target.wait_for(len(written), worker)
    worker.program.stop()
    assert by_librdkafka(bootstrap, name) == written


def test_connectors_of_a_stopped_group_are_taken_over_by_ours_and_given_back(
    bootstrap: str, name: str, worker: Worker, tmp_path: Path
) -> None:
    """Configurations, target states and offsets are in topics of Kafka's formats: each worker goes on with them."""
    with Admin(bootstrap, security=reaching.java()) as admin:
        admin.create_topic(name, 1, BROKERS)
    file, written, target = tmp_path / "lines.txt", [], Target(bootstrap, name)
    file.touch()
    connector = {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "tasks.max": "1", "file": str(file), "topic": name, "exactly.once.support": "required",
    }  # fmt: skip
    settings = WorkerSettings(
        bootstrap, f"{name}-ours", f"{name}-config", f"{name}-status", 1, f"{name}-offset", 1, exactly_once=True,
        properties={**{f"{kind}.converter": STRING for kind in ("key", "value")}, **reaching.java()},
    )  # fmt: skip

    def add(whose: str) -> None:
        lines = [b"line %d of %s" % (line, whose.encode()) for line in range(LINES)]
        with file.open("ab") as output:
            output.writelines(line + b"\n" for line in lines)
        written.extend(lines)

    async def by_ours() -> None:
        async with OurWorker(settings, "ours:1") as ours:
            assert ours.configs.names == [name]
            add("ours")
            await asyncio.to_thread(target.wait_for, len(written), worker)

    until(lambda: worker.ask("PUT", f"/connectors/{name}/config", connector), what="the connector accepted",
          within_s=PATIENCE_S)  # fmt: skip
    add("theirs")
    target.wait_for(len(written), worker)
    worker.program.stop()
    asyncio.run(by_ours())
    worker.program.start()
    add("theirs again")
    target.wait_for(len(written), worker)
    worker.program.stop()
    assert by_librdkafka(bootstrap, name) == written


class Target:
    """The topic as a reader of committed records has read it so far."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._lines = 0
        self._consumer = confluent_kafka.Consumer(
            {**reaching.librdkafka(bootstrap), "group.id": "nobody", "isolation.level": "read_committed"}
        )
        self._consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])

    def wait_for(self, count: int, worker: Worker) -> None:
        try:
            until(lambda: self._lines >= count, what=f"{count} lines", within_s=PATIENCE_S, step=self._take)
        except AssertionError as late:
            raise AssertionError(f"{late}: {self._lines} came; {worker.program.last_words()}") from None

    def _take(self) -> None:
        self._lines += sum(message.error() is None for message in self._consumer.consume(1000, 0.2))
