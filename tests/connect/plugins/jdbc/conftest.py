"""A PostgreSQL server of the distribution's package, where there is one; it ends with the run that started it."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from tests.conftest import NO_POSTGRES
from tests.ports import free_port
from tests.signals import ending_with_parent

_START_S = 100


def _as_another_user() -> dict:
    return {"user": "postgres", "group": "postgres", "extra_groups": []} if os.getuid() == 0 else {}


@pytest.fixture(scope="session")
def postgres():
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found:
        pytest.skip(NO_POSTGRES)
    bin_directory, home = found[-1].parent, Path(tempfile.mkdtemp(prefix="ottla-postgres-"))
    if os.getuid() == 0:
        shutil.chown(home, "postgres", "postgres")
    run = {"cwd": home, "stdout": subprocess.DEVNULL, **_as_another_user()}
    subprocess.run([bin_directory / "initdb", "-D", home / "db", "-U", "ottla", "-A", "trust", "-N"], check=True, **run)
    port = free_port()
    options = ["-p", str(port), "-h", "127.0.0.1", "-k", home, "-F"]
    options += ["-c", "max_prepared_transactions=4", "-c", "timezone=Asia/Tokyo"]
    server = subprocess.Popen(
        [bin_directory / "postgres", "-D", home / "db", *options], stderr=(home / "log").open("w"),
        preexec_fn=ending_with_parent(signal.SIGQUIT), **run,  # noqa: PLW1509
    )  # fmt: skip
    try:
        _wait_until_ready(
            [bin_directory / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port)], server, home / "log"
        )
        yield f"jdbc:postgresql://127.0.0.1:{port}/postgres?user=ottla"
    finally:
        server.send_signal(signal.SIGQUIT)
        server.wait(timeout=_START_S)
        shutil.rmtree(home, ignore_errors=True)


def _wait_until_ready(ask: list, server: subprocess.Popen, log: Path) -> None:
    deadline = time.monotonic() + _START_S
    while subprocess.run(ask, check=False).returncode != 0:
        assert server.poll() is None, log.read_text()
        assert time.monotonic() < deadline, f"PostgreSQL does not answer after {_START_S} s: {log.read_text()}"
        time.sleep(0.05)
