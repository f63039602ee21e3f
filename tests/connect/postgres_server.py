"""A PostgreSQL server of the distribution's package in a directory of its own."""

import os
import shutil
import socket
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

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
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]

    @property
    def url(self):
        """The address for the JDBC connectors."""
        return f"jdbc:postgresql://127.0.0.1:{self.port}/postgres?user=ottla"

    def database(self, name="postgres"):
        """The keywords of psycopg for one database."""
        return {"host": "127.0.0.1", "port": self.port, "user": "ottla", "dbname": name}

    def run(self, program, *words):
        """Run one of the server's programs."""
        rights = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.getuid() == 0 else {}
        command = [programs() / program, "-D", self.home / "db", *words]
        subprocess.run(command, check=True, cwd=self.home, stdout=subprocess.DEVNULL, timeout=100, **rights)

    def start(self):
        """Start it, and wait until it answers."""
        options = "".join(f" -c {name}={value}" for name, value in SETTINGS.items())
        where = f"-p {self.port} -h 127.0.0.1 -k {self.home} -F{options}"
        self.run("pg_ctl", "-l", self.home / "log", "-w", "-o", where, "start")

    def stop(self, mode="immediate"):
        """Stop it, by default as if it were killed."""
        self.run("pg_ctl", "-m", mode, "stop")


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
