"""`ottla start --registry-port`, `--connect-port`, `--console-port`: processes that end with their broker."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-m",
        "ottla.cli.main",
        "start",
        "--data",
        str(folder),
        "--port",
        "0",
        "--http-port",
        "0",
    ]
    return subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def answers(url: str, path: str = "subjects") -> bool:
    try:
        with urllib.request.urlopen(f"{url}/{path}", timeout=60) as answer:
            found = json.load(answer)
            return found == [] or (isinstance(found, dict) and found["users"] == [])
    except (urllib.error.URLError, ConnectionError):
        return False


@pytest.mark.parametrize(
    ("noun", "path", "end"),
    [
        ("registry", "subjects", signal.SIGTERM),
        ("registry", "subjects", signal.SIGKILL),
        ("connect", "connectors", signal.SIGTERM),
        ("connect", "connectors", signal.SIGKILL),
        ("console", "api/v1/users", signal.SIGKILL),
    ],
)
def test_a_process_beside_a_broker_answers_and_ends_with_it(
    noun: str, path: str, tmp_path: Path, end: signal.Signals
) -> None:
    broker = start(tmp_path, f"--{noun}-port", "0")
    try:
        assert broker.stdout is not None
        assert " ready: 127.0.0.1:" in broker.stdout.readline()
        url = broker.stdout.readline().partition(f"ottla {noun} ready: ")[2].strip()
        assert answers(url, path)
    finally:
        os.kill(broker.pid, end)
        _, said = broker.communicate(timeout=60)
    assert "Fatal Python error" not in said
    deadline = time.monotonic() + 300
    while answers(url, path):
        assert time.monotonic() < deadline, "it outlived its broker"
        time.sleep(0.05)


def test_a_broker_whose_registry_cannot_listen_says_so_and_ends(tmp_path: Path) -> None:
    broker = start(tmp_path / "one", "--registry-port", "0")
    try:
        assert broker.stdout is not None
        broker.stdout.readline()
        port = broker.stdout.readline().strip().rpartition(":")[2]
        other = start(tmp_path / "two", "--registry-port", port)
        _, said = other.communicate(timeout=60)
        assert other.returncode == 1 and "schema registry did not start" in said and "cannot start" in said
    finally:
        broker.terminate()
        broker.communicate(timeout=60)
