"""A sync that fails while the broker stops: its directory is not marked as cleanly closed."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest
from confluent_kafka import Producer

from ottla.server import sync_loop
from ottla.server.sync_loop import SyncLoop
from ottla.storage.checkpoint import CLEAN_SHUTDOWN
from ottla.testing import TestBroker

PATIENCE_S = 120


class Disk:
    """A disk whose first sync waits until the broker's stop does, and then fails, once."""

    def __init__(self) -> None:
        self.is_under_way = threading.Event()
        self.is_waited_for = threading.Event()
        self.real = os.fdatasync

    def fdatasync(self, descriptor: int) -> None:
        if not self.is_under_way.is_set():
            self.is_under_way.set()
            assert self.is_waited_for.wait(PATIENCE_S)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self.real(descriptor)


@pytest.mark.parametrize("fails", [True, False])
def test_a_failure_that_comes_during_the_stop_leaves_no_clean_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    disk = Disk()
    real_stop = SyncLoop.stop

    def stop(self: SyncLoop) -> None:
        disk.is_waited_for.set()
        real_stop(self)

    monkeypatch.setattr(sync_loop, "sync_round", lambda directory: None)
    monkeypatch.setattr(SyncLoop, "stop", stop)
    with TestBroker(directory=tmp_path) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0})
        producer.produce("events", b"first")
        assert producer.flush(PATIENCE_S) == 0
        if fails:
            monkeypatch.setattr(os, "fdatasync", disk.fdatasync)
            producer.produce("events", b"second")
            producer.poll(0)
            assert disk.is_under_way.wait(PATIENCE_S)
    producer.purge()
    assert (tmp_path / CLEAN_SHUTDOWN).exists() is not fails
