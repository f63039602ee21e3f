"""`ottla clock` and `ottla doctor` show a clock that is in doubt; an administrator's word ends the doubt."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import run_ottla

from ottla.server.clock import LoopClock
from ottla.testing import TestBroker

DAY_MS = 86_400_000


@pytest.fixture
def off(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The distance of the clock of brokers in this process from the true time, in ms."""
    distance = [0]
    monkeypatch.setattr(LoopClock, "wall_ms", lambda clock: time.time_ns() // 1_000_000 + distance[0])
    return distance


@pytest.fixture
def data(tmp_path: Path) -> Path:
    with TestBroker(directory=tmp_path):
        return tmp_path


@pytest.fixture
def late(data: Path, off: list[int]) -> Iterator[str]:
    """A broker that has started again with a clock 30 days ahead."""
    off[0] = 30 * DAY_MS
    with TestBroker(directory=data) as broker:
        yield broker.bootstrap_servers


def test_a_clock_that_is_right_is_shown_without_a_doubt(data: Path, off: list[int]) -> None:
    with TestBroker(directory=data) as broker:
        done = run_ottla("clock", "describe", "-b", broker.bootstrap_servers)
        assert done.returncode == 0 and done.stdout.split()[-1] == "-", done
        told = run_ottla("doctor", "-b", broker.bootstrap_servers)
        assert told.returncode == 0 and "1 broker agree" in told.stdout


def test_the_doctor_names_the_doubt_and_the_command_that_ends_it(late: str) -> None:
    told = run_ottla("doctor", "-b", late)
    assert told.returncode == 1
    assert "30.0 days later than is proven" in told.stdout and "`ottla clock accept`" in told.stdout
    assert "its clock is 30.0 days ahead of that of this machine" in told.stdout


def test_an_accept_by_a_machine_that_disagrees_is_refused_unless_it_says_the_time(late: str) -> None:
    refused = run_ottla("clock", "accept", "-b", late)
    assert refused.returncode == 2 and "--time" in refused.stderr
    (clock,) = json.loads(run_ottla("clock", "describe", "-b", late, "--format", "json").stdout)
    assert abs(clock["ahead_ms"] - 30 * DAY_MS) < 600_000
    then = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(clock["wall_ms"] // 1000))
    done = run_ottla("clock", "accept", "-b", late, "--time", then)
    assert done.returncode == 0, done
    assert run_ottla("clock", "describe", "-b", late).returncode == 0


def test_a_word_that_does_not_fit_the_clock_leaves_the_doubt(late: str) -> None:
    done = run_ottla("clock", "accept", "-b", late, "--time", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
    assert done.returncode == 1 and "set the clock of its machine" in done.stderr


@pytest.mark.parametrize("said", ["tomorrow", "2026-11-28T12:00:00", "1700000000000"])
def test_a_time_without_its_zone_is_refused(late: str, said: str) -> None:
    done = run_ottla("clock", "accept", "-b", late, "--time", said)
    assert done.returncode == 2 and "with its zone" in done.stderr


def test_the_doctor_says_what_a_clock_that_is_behind_does(data: Path, off: list[int]) -> None:
    off[0] = -DAY_MS
    with TestBroker(directory=data) as broker:
        told = run_ottla("doctor", "-b", broker.bootstrap_servers)
    assert told.returncode == 1 and "earlier than it was known to be" in told.stdout
