"""Runs the program as users run it, against a broker in this process."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

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
    return subprocess.run(
        [sys.executable, "-m", "ottla.cli.main", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def ottla(bootstrap: str) -> Ottla:
    """Runs `ottla ...`; the broker's address is added where a command takes one."""

    def run(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        flag = "--bootstrap-server" if arguments[0].startswith("kafka-") else "-b"
        return run_ottla(*arguments, flag, bootstrap, stdin=stdin)

    return run
