"""Sessions of MariaDB for change capture, their errors, and the dump of the log. All of it blocks."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from ottla.connect.errors import ConfigException, ConnectException, RetriableException

if TYPE_CHECKING:
    from pymysql import Connection

_SESSION: Final = "SET time_zone = '+00:00', sql_mode = '', net_write_timeout = 3600"
"""Values are written as `types` reads them, and a snapshot may take its time."""
HEARTBEAT_S: Final = 10
_SILENCE_S: Final = 60
"""The server is gone where it is silent for so long, heartbeats included."""
_DUMP: Final = 0x12
_ANNOTATIONS: Final = 2
_BOTH_WAYS: Final = 2
"""SHUT_RDWR of a socket."""
LOST: Final = (1236, 1373)
"""Codes for a place that the server's log does not have."""
_FOR_GOOD: Final = frozenset({1044, 1045, 1049, 1142, 1143, 1146, 1227, 1236, 1373, 1064, 1054, 2026})


def connected(options: Mapping[str, Any], *, streaming: bool = False) -> Connection[Any]:
    """A connection; one that is `streaming` may be silent for no longer than heartbeats are apart."""
    try:
        import pymysql
    except ImportError:
        raise ConfigException("the MariaDB connector needs PyMySQL: pip install 'ottla[connect-sql]'") from None
    password = options["database.password"]
    connection = pymysql.connect(
        host=options["database.hostname"], port=options["database.port"], user=options["database.user"],
        password="" if password is None else password.value, charset="utf8mb4", autocommit=True, conv={},
        connect_timeout=max(1, options["connect.timeout.ms"] // 1000), program_name="ottla",
        read_timeout=_SILENCE_S if streaming else None, ssl=_tls(options), init_command=_SESSION,
    )  # fmt: skip
    if options["database.ssl.mode"] != "disable" and not connection._secure:  # PyMySQL goes on without
        connection.close()
        raise ConfigException("the server offers no TLS: set it up there, or set database.ssl.mode=disable")
    with connection.cursor() as cursor:
        for each in filter(None, (part.strip() for part in (options["database.initial.statements"] or "").split(";"))):
            cursor.execute(each)
    return connection


def _tls(options: Mapping[str, Any]) -> dict[str, Any] | None:
    mode = options["database.ssl.mode"]
    if mode == "disable":
        return None
    files = {name: options[f"database.ssl.{name}"] for name in ("ca", "cert", "key")}
    given = {name: file for name, file in files.items() if file is not None}
    if mode.startswith("verify") and "ca" not in given:
        raise ConfigException(f"database.ssl.mode={mode} needs database.ssl.ca")
    verify = "none" if mode == "trust" else "required"
    return {**given, "verify_mode": verify, "check_hostname": mode == "verify-full"}


def rows(connection: Connection[Any], question: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The rows of an answer, all values in text."""
    with connection.cursor() as cursor:
        cursor.execute(question, values or None)
        return list(cursor.fetchall())


def quoted(name: str) -> str:
    """A name in a statement."""
    return "`" + name.replace("`", "``") + "`"


def abandon(cursor: Any) -> None:
    """Leave rows that were not read where they are: PyMySQL would read them all before it forgets a cursor."""
    if cursor._result is not None:
        cursor._result.unbuffered_active = False


def known(fault: Exception) -> Exception:
    """An error of the database as one of Connect; those that may pass are retriable."""
    from pymysql import MySQLError
    from pymysql.err import InterfaceError, OperationalError

    if isinstance(fault, OSError):
        return RetriableException(f"the connection to the database has ended: {fault}")
    if not isinstance(fault, MySQLError):
        return fault
    code, reason = (*fault.args, None, None)[:2]
    if code in LOST:
        return ConnectException(
            f"the server's log does not have the place that was read last: {reason}. Delete the connector's offsets to "
            "take a new snapshot, or set snapshot.mode=when_needed"
        )
    passing = isinstance(fault, OperationalError | InterfaceError) and code not in _FOR_GOOD
    kind = RetriableException if passing else ConnectException
    return kind(f"{reason or fault} (code {code})")


class Dump:
    """The log as the server sends it to a replica."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options
        self._connection = connected(options, streaming=True)

    def begin(self, kept: Mapping[str, Any], server_id: int) -> None:
        """Ask for the log behind an offset: behind its transactions where it has them, else at its place in a file."""
        gtids = kept.get("gtids")
        with self._connection.cursor() as cursor:
            cursor.execute("SET @master_binlog_checksum = @@global.binlog_checksum, @mariadb_slave_capability = 4, "
                           f"@master_heartbeat_period = {HEARTBEAT_S * 1_000_000_000}")  # fmt: skip
            if gtids:
                cursor.execute("SET @slave_connect_state = %s, @slave_gtid_strict_mode = 1, "
                               "@slave_gtid_ignore_duplicates = 0", (gtids,))  # fmt: skip
        file, position = ("", 4) if gtids else (kept["file"], kept["pos"])
        flags = _ANNOTATIONS if self._options["include.query"] else 0
        body = struct.pack("<IHI", position, flags, server_id) + file.encode()
        self._connection._execute_command(_DUMP, body)

    def next(self) -> bytes:
        """The next event; it waits for one."""
        packet = self._connection._read_packet()
        event: bytes = packet.get_all_data()
        if event[:1] == b"\xfe" and len(event) < 9:
            raise RetriableException("the server has ended the stream of changes")
        return event[1:]

    def close(self) -> None:
        """End the connection, also while a thread waits for an event."""
        with contextlib.suppress(OSError, AttributeError):  # it has ended before
            self._connection._sock.shutdown(_BOTH_WAYS)
        self._connection._force_close()
