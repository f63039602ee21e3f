"""A signal ends a run, also where no broker answers any more."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ottla.client import Admin, Producer
from ottla.streams.stopping import stopped_by_signals
from ottla.testing import TestBroker

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "wordcount.py"


def test_a_block_that_waits_after_the_signal_is_left_and_so_is_each_wait_of_its_cleaning_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stop, cleaned = threading.Event(), []
    with stopped_by_signals(stop, within_s=0.01):
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            threading.Event().wait(600)
        finally:
            cleaned.append(stop.is_set())
            threading.Event().wait(600)
            cleaned.append("never")
    assert cleaned == [True]
    assert "no orderly end within 0.01 s" in caplog.text
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_block_that_ends_after_the_signal_is_not_disturbed_and_the_handlers_are_as_before(
    caplog: pytest.LogCaptureFixture,
) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM)]
    stop = threading.Event()
    with stopped_by_signals(stop, within_s=600):
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.wait(600)
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert not caplog.text
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM)] == before


def test_a_run_whose_broker_is_gone_ends_after_sigterm() -> None:
    with TestBroker() as broker:
        with Admin(broker.bootstrap_servers) as admin, Producer(broker.bootstrap_servers) as producer:
            for topic in ("word-lines", "word-counts"):
                admin.create_topic(topic, 1)
            producer.produce("word-lines", "so it is")
        command = [sys.executable, "-m", "ottla.cli.main", "streams", "run", str(EXAMPLE), "--application-id", "app"]
        run = subprocess.Popen([*command, "-b", broker.bootstrap_servers], stderr=subprocess.PIPE, text=True)
        broker.records("word-counts", at_least=3, isolation_level="read_committed", timeout=60)
    try:
        run.send_signal(signal.SIGTERM)
        _, said = run.communicate(timeout=300)
    finally:
        run.kill()
    assert run.returncode == 0
    assert "no orderly end within 5 s" in said
