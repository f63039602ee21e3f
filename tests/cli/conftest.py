"""Runs the program as users run it, against a broker in this process."""

from __future__ import annotations

import itertools
import os
import subprocess
from collections.abc import Callable, Iterator

import pytest
from tests.forked_program import run_program

from ottla.testing import TestBroker

_names = itertools.count()
Ottla = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def bootstrap() -> Iterator[str]:
    with TestBroker({"offsets.topic.num.partitions": "5"}) as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def name() -> str:
    """A name for a topic or group that no other test uses."""
    return f"x{os.getpid()}-{next(_names)}"


def run_ottla(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run `ottla` in a fork of its own; see `tests.forked_program`."""
    return in_text(run_program([*arguments], stdin=stdin.encode()))


def in_text(ran: subprocess.CompletedProcess[bytes]) -> subprocess.CompletedProcess[str]:
    """The same end of a run, with its output as text, as `subprocess.run` reads it."""
    said, told = (output.decode().replace("\r\n", "\n").replace("\r", "\n") for output in (ran.stdout, ran.stderr))
    return subprocess.CompletedProcess(ran.args, ran.returncode, said, told)


@pytest.fixture
def ottla(bootstrap: str) -> Ottla:
    """Runs `ottla ...`; the broker's address is added where a command takes one."""

    def run(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        flag = "--bootstrap-server" if arguments[0].startswith("kafka-") else "-b"
        return run_ottla(*arguments, flag, bootstrap, stdin=stdin)

    return run
