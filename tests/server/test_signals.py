"""A broker stops cleanly when its terminal closes, and goes on if it was told to ignore that."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.signals import from_a_terminal

from ottla.server.signals import stopping_signals


def test_a_closed_terminal_stops_a_broker_cleanly(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ottla", "start", "--data", str(tmp_path), "--port", "0", "--http-port", "0"]
    pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(from_a_terminal(command), stdout=pipe, stderr=nowhere, text=True) as broker:
        assert broker.stdout is not None
        assert " ready: " in broker.stdout.readline()
        broker.send_signal(signal.SIGHUP)
        assert broker.wait(60) == 0


@pytest.mark.parametrize("ignored", [False, True])
def test_under_nohup_a_closed_terminal_stops_nothing(ignored: bool) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)
    try:
        assert (signal.SIGHUP not in stopping_signals()) is ignored
        assert {signal.SIGTERM, signal.SIGINT} <= set(stopping_signals())
    finally:
        signal.signal(signal.SIGHUP, before)
