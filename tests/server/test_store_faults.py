"""A metadata store that cannot be written, is damaged or is gone is reported at once, with its path."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.server.processes import OttlaProcess


def until(holds: Callable[[], bool], broker: OttlaProcess) -> None:
    deadline = time.monotonic() + 300
    while not holds():
        assert time.monotonic() < deadline, broker.log()
        time.sleep(0.05)


def create(broker: OttlaProcess, name: str, timeout_s: float = 30) -> KafkaError | None:
    admin = AdminClient({"bootstrap.servers": broker.address})
    made = admin.create_topics([NewTopic(name, 1, 1)], request_timeout=timeout_s, operation_timeout=timeout_s)
    try:
        made[name].result(timeout=60)
    except KafkaException as fault:
        return fault.args[0]
    return None


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    with OttlaProcess(tmp_path / "data") as broker:
        assert create(broker, "t") is None
        broker.stop()
    return tmp_path / "data"


@pytest.fixture
def read_only(filled: Path) -> Iterator[Path]:
    """A store whose file cannot be written."""
    store = filled / "metadata" / "metadata.db"
    subprocess.run(["mount", "--bind", store, store], check=True)
    subprocess.run(["mount", "-o", "remount,ro,bind", store], check=True)
    try:
        yield filled
    finally:
        subprocess.run(["umount", "-l", store], check=True)


@pytest.mark.root
def test_a_store_that_cannot_be_written_is_said_while_the_broker_still_tries(read_only: Path):
    broker = OttlaProcess(read_only)
    process = subprocess.Popen(
        [sys.executable, "-m", "ottla", "start", "--data", str(read_only), "--port", "0", "--http-port", "0"],
        stdout=subprocess.PIPE,
        stderr=broker.errors,
        env={**os.environ},
    )
    try:
        until(lambda: "the metadata store cannot be written" in broker.log(), broker)
        assert process.poll() is None
        (line,) = [line for line in broker.log().splitlines() if "cannot be written" in line]
        assert " ERROR " in line
        assert str(read_only / "metadata" / "metadata.db") in line
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def test_a_damaged_store_is_one_sentence_and_no_traceback(filled: Path):
    store = filled / "metadata" / "metadata.db"
    with closing(sqlite3.connect(store, isolation_level=None)) as opened:
        version, body = opened.execute("SELECT version, body FROM log ORDER BY version DESC LIMIT 1").fetchone()
        opened.execute("UPDATE log SET body = ? WHERE version = ?", (body[:-9] + b"\xff" + body[-8:], version))
    broker = OttlaProcess(filled)
    with pytest.raises(RuntimeError, match="did not start"):
        broker.start()
    assert f"cannot start: The metadata store is damaged: entry {version} in {store}" in broker.log()
    assert "Traceback" not in broker.log()


def test_a_damaged_page_of_the_store_is_one_sentence_and_no_traceback(filled: Path):
    store = filled / "metadata" / "metadata.db"
    pages = bytearray(store.read_bytes())
    pages[4096:4112] = bytes(16)
    store.write_bytes(pages)
    broker = OttlaProcess(filled)
    with pytest.raises(RuntimeError, match="did not start"):
        broker.start()
    assert f"cannot start: The metadata store is damaged: its file in {store}" in broker.log()
    assert "Traceback" not in broker.log()


def test_when_the_store_is_removed_under_a_broker_it_says_so_and_acknowledges_nothing(filled: Path):
    store = filled / "metadata" / "metadata.db"
    with OttlaProcess(filled) as broker:
        store.unlink()
        assert create(broker, "after", timeout_s=5) is not None
        until(lambda: f"{store} was removed while this broker uses it" in broker.log(), broker)
        refused: list[KafkaError | None] = []
        producer = Producer({"bootstrap.servers": broker.address, "retries": 0, "message.timeout.ms": 3000})

        def write() -> bool:
            producer.produce("t", b"x", on_delivery=lambda error, _: refused.append(error))
            producer.flush(10)
            return bool(refused) and refused[-1] is not None

        until(write, broker)
        assert not store.exists()
        assert broker.process is not None and broker.process.poll() is None
