"""A MariaDB server of the distribution's package in a directory of its own."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import pymysql
from tests.ports import free_port
from tests.signals import ending_with_parent

_START_S = 100

SETTINGS = {
    "log-bin": "binlog", "server-id": 7, "binlog-format": "ROW", "binlog-row-metadata": "FULL",
    "default-time-zone": "+09:00", "innodb-buffer-pool-size": "16M", "innodb-log-file-size": "4M",
    "innodb-flush-log-at-trx-commit": 2, "bind-address": "127.0.0.1", "character-set-server": "utf8mb4",
}  # fmt: skip


def program(name):
    """The path of one of the server's programs, None where it is not there."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


def is_here():
    """True where the package is installed."""
    return bool(program("mariadbd") and program("mariadb-install-db"))


class MariaServer:
    """One server; root runs it as the user of the package."""

    def __init__(self, home):
        self.home = home
        self.port = free_port()
        self.process = None

    def database(self, name=None):
        """The keywords of PyMySQL for one database."""
        return {"host": "127.0.0.1", "port": self.port, "user": "root", "database": name}

    def url(self, name):
        """The address of a database for the JDBC connectors."""
        return f"jdbc:mariadb://127.0.0.1:{self.port}/{name}?user=root"

    def install(self):
        """Make the tables of the server itself."""
        words = ["--no-defaults", f"--datadir={self.home}/db", "--auth-root-authentication-method=normal",
                 "--skip-test-db"]  # fmt: skip
        command = [program("mariadb-install-db"), *words]
        subprocess.run(command, check=True, capture_output=True, cwd=self.home, timeout=_START_S, **_rights())

    def start(self, **more):
        """Start it, and wait until it answers. It ends with this process."""
        settings = [f"--{name}={value}" for name, value in {**SETTINGS, **more}.items()]
        where = [f"--datadir={self.home}/db", f"--port={self.port}", f"--socket={self.home}/socket",
                 f"--log-error={self.home}/log", f"--pid-file={self.home}/pid"]  # fmt: skip
        self.process = subprocess.Popen(
            [program("mariadbd"), "--no-defaults", *where, *settings], stderr=subprocess.DEVNULL, cwd=self.home,
            preexec_fn=ending_with_parent(signal.SIGTERM), **_rights(),  # noqa: PLW1509
        )  # fmt: skip
        deadline = time.monotonic() + _START_S
        while not self._answers():
            assert self.process.poll() is None, (self.home / "log").read_text()
            assert time.monotonic() < deadline, f"MariaDB does not answer after {_START_S} s"
            time.sleep(0.05)

    def _answers(self):
        try:
            pymysql.connect(**self.database()).close()
        except pymysql.err.OperationalError:
            return False
        return True

    def stop(self):
        """Stop it, as if it were killed."""
        self.process.kill()
        self.process.wait(timeout=_START_S)


def _rights():
    return {"user": "mysql", "group": "mysql", "extra_groups": []} if os.getuid() == 0 else {}


def ask(database, *statements):
    """The rows of the last of several statements, each a transaction of its own where it does not begin one."""
    connection = pymysql.connect(**database, autocommit=True)
    try:
        with connection.cursor() as cursor:
            for each in statements:
                cursor.execute(each)
            return list(cursor.fetchall())
    finally:
        connection.close()


@contextmanager
def a_server():
    """A running server that is gone afterwards."""
    home = Path(tempfile.mkdtemp(prefix="ottla-mariadb-"))
    if os.getuid() == 0:
        shutil.chown(home, "mysql", "mysql")
    server = MariaServer(home)
    try:
        server.install()
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(home, ignore_errors=True)
