"""The brokers of tests as processes: what tests read of their output is all of it."""

from __future__ import annotations

from pathlib import Path

from tests.server.processes import OttlaProcess


def test_a_broker_that_writes_while_its_log_is_read_overwrites_nothing(tmp_path: Path):
    with OttlaProcess(tmp_path) as broker:
        assert broker.stop() == 0
        broker.errors.seek(0)  # as `log` does before it reads; the broker writes to the same open file
        broker.start()
        assert broker.stop() == 0
        assert broker.log().count("  data      ") == 2
