"""The broker of client tests in a process: it sees its own settings only, and a crash does not pass for a clean end."""

from __future__ import annotations

import pytest
from ottla_process import EndedBadly, TemporaryBroker


def test_a_broker_that_was_killed_is_not_taken_for_one_that_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_NUM_PARTITIONS", "none")  # a broker that saw it would refuse to start
    broker = TemporaryBroker()
    with pytest.raises(EndedBadly, match="the broker ended with -9"), broker:
        assert broker.running
        broker.kill()
    assert not broker.folder.exists()
