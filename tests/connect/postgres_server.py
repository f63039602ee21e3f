"""A PostgreSQL server of the distribution's package in a directory of its own."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

from tests.ports import free_port
from tests.signals import ending_with_parent

_START_S = 100

SETTINGS = {
    "max_prepared_transactions": 4, "timezone": "Asia/Tokyo", "wal_level": "logical", "max_replication_slots": 30,
    "max_wal_senders": 30,
}  # fmt: skip


def programs():
    """The directory of the newest server's programs, None where there is none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return found[-1].parent if found else None


class PostgresServer:
    """One server; root runs it as the user of the package."""

    def __init__(self, home):
        self.home = home
        self.port = free_port()
        self.process = None

    @property
    def url(self):
        """The address for the JDBC connectors."""
        return f"jdbc:postgresql://127.0.0.1:{self.port}/postgres?user=ottla"

    def database(self, name="postgres"):
        """The keywords of psycopg for one database."""
        return {"host": "127.0.0.1", "port": self.port, "user": "ottla", "dbname": name}

    def run(self, program, *words):
        """Run one of the server's programs."""
        command = [programs() / program, "-D", self.home / "db", *words]
        subprocess.run(command, check=True, cwd=self.home, stdout=subprocess.DEVNULL, timeout=_START_S, **_rights())

    def start(self):
        """Start it, and wait until it answers. It ends with this process."""
        settings = [word for name, value in SETTINGS.items() for word in ("-c", f"{name}={value}")]
        where = ["-p", str(self.port), "-h", "127.0.0.1", "-k", self.home, "-F"]
        self.process = subprocess.Popen(
            [programs() / "postgres", "-D", self.home / "db", *where, *settings],
            cwd=self.home, stdout=subprocess.DEVNULL, stderr=(self.home / "log").open("a"),
            preexec_fn=ending_with_parent(signal.SIGQUIT), **_rights(),  # noqa: PLW1509
        )  # fmt: skip
        ask = [programs() / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        deadline = time.monotonic() + _START_S
        while subprocess.run(ask, check=False).returncode != 0:
            assert self.process.poll() is None, (self.home / "log").read_text()
            assert time.monotonic() < deadline, f"PostgreSQL does not answer after {_START_S} s"
            time.sleep(0.05)

    def stop(self, mode="immediate"):
        """Stop it, by default as if it were killed."""
        self.process.send_signal({"immediate": signal.SIGQUIT, "fast": signal.SIGINT}[mode])
        self.process.wait(timeout=_START_S)


def _rights():
    return {"user": "postgres", "group": "postgres", "extra_groups": []} if os.getuid() == 0 else {}


@contextmanager
def a_server():
    """A running server that is gone afterwards."""
    home = Path(tempfile.mkdtemp(prefix="ottla-postgres-"))
    if os.getuid() == 0:
        shutil.chown(home, "postgres", "postgres")
    server = PostgresServer(home)
    try:
        server.run("initdb", "-U", "ottla", "-A", "trust", "-N")
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(home, ignore_errors=True)
