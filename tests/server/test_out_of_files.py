"""Clients that open connections without end leave the broker the descriptors that its logs need."""

from __future__ import annotations

import contextlib
import resource
import socket
import subprocess
import sys
from pathlib import Path

from confluent_kafka import Producer
from tests.server.processes import OttlaProcess

from ottla.client.blocking.admin import Admin
from ottla.client.blocking.cluster import Cluster
from ottla.kernel.errors import ApiError

FILES = 200


def start(data: Path, files: int) -> tuple[subprocess.Popen[str], str]:
    """Start a broker with a hard limit of open files; return it with its first line."""
    limited = ["prlimit", f"--nofile={files}:{files}", sys.executable, "-m", "ottla", "start"]
    options = ["--data", str(data), "--port", "0", "--http-port", "0"]
    process = subprocess.Popen([*limited, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def served(cluster: Cluster, topic: str) -> int:
    """The number of partitions whose leader answers a fetch."""
    count = 0
    for partition in cluster.partitions(topic):
        with contextlib.suppress(ApiError):
            count += not cluster.fetch(*partition, 0, max_wait_ms=0, timeout_ms=500).error
    return count


def test_under_a_low_limit_a_broker_serves_what_it_can_and_says_so(tmp_path: Path) -> None:
    process, line = start(tmp_path / "data", 256)
    try:
        address = line.split(" ready: ")[1]
        with Admin(address) as admin, Cluster(address) as cluster:
            admin.create_topic("few", 20)
            assert served(cluster, "few") == 20
    finally:
        process.terminate()
        _, said = process.communicate(timeout=30)
    assert "this process may have 256 files open" in said


def test_a_broker_whose_logs_need_more_files_than_it_may_open_refuses_to_start(tmp_path: Path) -> None:
    with OttlaProcess(tmp_path / "data") as broker, Admin(broker.address) as admin:
        admin.create_topic("t", 100)
        assert broker.stop() == 0
    process, line = start(tmp_path / "data", 256)
    _, said = process.communicate(timeout=30)
    assert (line, process.returncode) == ("", 1)
    assert "cannot start: 100 replicas need 316 open files, and this process may have 256" in said
    with OttlaProcess(tmp_path / "data") as broker, Cluster(broker.address) as cluster:
        assert len(cluster.partitions("t")) == 100


def test_connections_leave_the_broker_files_to_write_its_logs_with(tmp_path: Path) -> None:
    delivered: list[object] = []
    with (
        OttlaProcess(tmp_path / "data", "--set", "log.segment.bytes=1048576") as broker,
        contextlib.ExitStack() as held,
    ):
        assert broker.process is not None
        producer = Producer({"bootstrap.servers": broker.address, "message.timeout.ms": 60_000, "linger.ms": 0})

        def produce(count: int) -> None:
            for _ in range(count):
                producer.produce("t", bytes(100_000), on_delivery=lambda error, _: delivered.append(error))
            producer.flush(90)

        produce(1)
        resource.prlimit(broker.process.pid, resource.RLIMIT_NOFILE, (FILES, FILES))
        host, _, port = broker.address.rpartition(":")
        with contextlib.suppress(TimeoutError):
            for _ in range(2 * FILES):
                held.enter_context(socket.create_connection((host, int(port)), timeout=0.5))
        produce(50)
        assert broker.process.poll() is None, broker.log()
        assert delivered == [None] * 51
