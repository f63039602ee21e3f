"""A PostgreSQL server of the distribution's package for one test module, where there is one."""

import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest
from tests.conftest import NO_POSTGRES


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
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    run = {"cwd": home, "stdout": subprocess.DEVNULL, "timeout": 100, **_as_another_user()}
    subprocess.run([bin_directory / "initdb", "-D", home / "db", "-U", "ottla", "-A", "trust", "-N"], check=True, **run)
    options = f"-p {port} -h 127.0.0.1 -k {home} -F -c max_prepared_transactions=4 -c timezone=Asia/Tokyo"
    start = [bin_directory / "pg_ctl", "-D", home / "db", "-l", home / "log", "-w", "-o", options, "start"]
    subprocess.run(start, check=True, **run)
    try:
        yield f"jdbc:postgresql://127.0.0.1:{port}/postgres?user=ottla"
    finally:
        subprocess.run([bin_directory / "pg_ctl", "-D", home / "db", "-m", "immediate", "stop"], check=True, **run)
        shutil.rmtree(home, ignore_errors=True)
