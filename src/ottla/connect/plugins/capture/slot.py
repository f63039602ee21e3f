"""The streaming replication protocol over libpq: a slot is made, its messages arrive, and what is safe is confirmed.

psycopg speaks this protocol at the level of libpq alone. The connection never waits: it is asked when it is readable.
"""

from __future__ import annotations

import asyncio
import struct
import time
from dataclasses import dataclass
from typing import Any, Final

from psycopg import AsyncConnection, Error, pq, sql

from ottla.connect.errors import ConnectException, RetriableException
from ottla.connect.plugins.capture.beginning import lsn_of, lsn_text
from ottla.connect.plugins.capture.pgoutput import EPOCH_US

_DATA: Final = struct.Struct(">cQQq")
_KEEPALIVE: Final = struct.Struct(">cQq?")
_STATUS: Final = struct.Struct(">cQQQq?")


@dataclass(frozen=True, slots=True)
class Change:
    """One message of the plugin, and its place in the log."""

    lsn: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Keepalive:
    """The server has read its log up to a place, and sent all changes of it."""

    end_lsn: int


@dataclass(frozen=True, slots=True)
class MadeSlot:
    """A new slot: where its changes begin, and the snapshot of the rows just before that."""

    consistent_lsn: int
    snapshot: str


class Slot:
    """A connection to the server's log sender, for one slot."""

    def __init__(self, connection: AsyncConnection[Any], name: str) -> None:
        self._connection, self._name = connection, name
        self._pq = connection.pgconn
        self._received = self._confirmed = 0
        self._streaming = False

    async def make(self, *, failover: bool) -> MadeSlot:
        """Make the slot. Its snapshot lasts until the next command on this connection."""
        more = sql.SQL(" (SNAPSHOT 'export', FAILOVER true)" if failover else " EXPORT_SNAPSHOT")
        command = sql.SQL("CREATE_REPLICATION_SLOT {} LOGICAL pgoutput{}").format(sql.Identifier(self._name), more)
        row = await (await self._connection.execute(command)).fetchone()
        assert row is not None
        return MadeSlot(lsn_of(row[1]), row[2])

    async def begin(self, lsn: int, publication: str, *, messages: bool) -> None:
        """Ask for the changes behind a place."""
        options = sql.SQL("proto_version '1', publication_names {}{}").format(
            sql.Literal('"' + publication.replace('"', '""') + '"'), sql.SQL(", messages 'true'" if messages else "")
        )
        command = sql.SQL("START_REPLICATION SLOT {} LOGICAL {} ({})").format(
            sql.Identifier(self._name), sql.SQL(lsn_text(lsn)), options
        )
        self._pq.send_query(command.as_bytes(self._connection))
        while self._pq.flush():
            await self._writable()
        while True:
            self._pq.consume_input()
            if not self._pq.is_busy():
                break
            await self.readable(None)
        result = self._pq.get_result()
        if result is None or result.status != pq.ExecStatus.COPY_BOTH:
            reason = "no answer" if result is None else result.error_message.decode("utf-8", "replace").strip()
            kind = RetriableException if "is active for" in reason else ConnectException
            raise kind(f"the replication slot {self._name} cannot be read: {reason}")
        self._pq.nonblocking = 1
        self._streaming = True
        self._received = self._confirmed = lsn
        self.report()

    def receive(self) -> list[Change | Keepalive]:
        """All messages that have arrived; RetriableException where the connection has ended."""
        found: list[Change | Keepalive] = []
        try:
            self._pq.consume_input()
            while len(found) < 2048:
                size, payload = self._pq.get_copy_data(1)
                if size == 0:
                    break
                if size < 0:
                    raise self._ended()
                found += self._taken(bytes(payload))
        except Error as fault:
            raise RetriableException(f"the connection to the database has ended: {fault}") from fault
        return found

    def _taken(self, frame: bytes) -> list[Change | Keepalive]:
        if frame[:1] == b"w":
            _, lsn, _, _ = _DATA.unpack_from(frame)
            self._received = max(self._received, lsn)
            return [Change(lsn, frame[_DATA.size :])]
        if frame[:1] == b"k":
            _, end_lsn, _, asked = _KEEPALIVE.unpack(frame)
            self._received = max(self._received, end_lsn)
            if asked:
                self.report()
            return [Keepalive(end_lsn)]
        raise ConnectException(f"the log sender wrote a frame of the unknown kind {frame[:1]!r}")

    def _ended(self) -> Exception:
        result = self._pq.get_result()
        reason = b"" if result is None else result.error_message
        return RetriableException(
            f"the server has ended the stream of changes: {reason.decode('utf-8', 'replace').strip() or 'no reason'}"
        )

    def confirm(self, lsn: int) -> None:
        """Tell the server that all before a place is safe: it may forget it."""
        self._confirmed = max(self._confirmed, lsn)
        self.report()

    def report(self) -> None:
        """Say what has arrived and what is safe. The server ends connections that are silent for too long."""
        if not self._streaming:
            return
        now = int(time.time() * 1_000_000) - EPOCH_US
        frame = _STATUS.pack(b"r", max(self._received, self._confirmed), self._confirmed, self._confirmed, now, False)
        try:
            self._pq.put_copy_data(frame)
            self._pq.flush()
        except Error as fault:
            raise RetriableException(f"the connection to the database has ended: {fault}") from fault

    async def readable(self, timeout: float | None) -> bool:
        """Wait until something arrives; False after a time without."""
        loop, fd = asyncio.get_running_loop(), self._pq.socket
        arrived = asyncio.Event()
        loop.add_reader(fd, arrived.set)
        try:
            await asyncio.wait_for(arrived.wait(), timeout)
        except TimeoutError:
            return False
        finally:
            loop.remove_reader(fd)
        return True

    async def _writable(self) -> None:
        loop, fd = asyncio.get_running_loop(), self._pq.socket
        ready = asyncio.Event()
        loop.add_writer(fd, ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_writer(fd)

    async def close(self) -> None:
        """End the connection; the slot stays."""
        self._streaming = False
        await self._connection.close()
