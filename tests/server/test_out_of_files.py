"""Clients that open connections without end leave the broker the files that it needs for its logs."""

from __future__ import annotations

import contextlib
import resource
import socket
from pathlib import Path

from confluent_kafka import Producer
from tests.server.processes import OttlaProcess

FILES = 200


def test_connections_leave_the_broker_files_to_write_its_logs_with(tmp_path: Path) -> None:
    delivered: list[object] = []
    with (
        OttlaProcess(tmp_path / "data", "--set", "log.segment.bytes=1048576") as broker,
        contextlib.ExitStack() as held,
    ):
        assert broker.process is not None
        producer = Producer({"bootstrap.servers": broker.address, "message.timeout.ms": 10_000, "linger.ms": 0})

        def produce(count: int) -> None:
            for _ in range(count):
                producer.produce("t", bytes(100_000), on_delivery=lambda error, _: delivered.append(error))
            producer.flush(15)

        produce(1)
        resource.prlimit(broker.process.pid, resource.RLIMIT_NOFILE, (FILES, FILES))
        host, _, port = broker.address.rpartition(":")
        with contextlib.suppress(TimeoutError):
            for _ in range(2 * FILES):
                held.enter_context(socket.create_connection((host, int(port)), timeout=0.5))
        produce(50)
        assert broker.process.poll() is None, broker.log()
        assert delivered == [None] * 51
