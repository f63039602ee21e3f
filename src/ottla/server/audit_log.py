"""The audit log's file: written and synced by a thread of its own, so that the loop never waits for it.

`PATH.last` holds the number and the hash of the last line, by which a cut end is found. A file that was renamed away
is followed by a new one, whose chain goes on.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import threading
import time
from collections.abc import Mapping
from typing import IO

from ottla.access.audit import AuditEnd, audit_line, read_end
from ottla.wire.connection import ServerConnection

MOST_WAITING = 10_000
_MOST_AT_ONCE = 1000
_TAIL_BYTES = 1 << 20

log = logging.getLogger("ottla.audit")


class AuditLog:
    """`note` never waits: where too many events wait, further ones are counted, and a line tells the count."""

    def __init__(self, path: str, broker: int) -> None:
        """OSError or ValueError if the file cannot be used: a broker that is to be audited does not start then."""
        self._path = path
        self._broker = broker
        self._waiting: queue.Queue[Mapping[str, object] | None] = queue.Queue(MOST_WAITING)
        self._lost = 0
        self._counting = threading.Lock()
        self._failed = False
        self._file = self._opened()
        self._end, noted = self._found_end(), self._noted()
        self._thread = threading.Thread(target=self._write_all, name="ottla-audit", daemon=True)
        self._thread.start()
        if noted.lines > self._end.lines:
            log.error(
                "%s ends in line %d, but line %d was synced: lines are missing", path, self._end.lines, noted.lines
            )
            self.note({"event": "lines are missing", "last": self._end.lines, "synced": noted.lines})

    def note(self, event: Mapping[str, object]) -> None:
        """Have an event written."""
        noted = {"time": time.time(), "broker": self._broker, **event}
        try:
            self._waiting.put_nowait(noted)
        except queue.Full:
            self._lose(1)

    def certificate_shown(self, connection: ServerConnection) -> None:
        """Tell of a connection whose certificate says who it is."""
        who = {"principal": connection.principal, "client": connection.peer_host, "listener": connection.listener}
        self.note({"event": "login", **who})

    def stop(self) -> None:
        """Write what waits, and close the file."""
        self._waiting.put(None)
        self._thread.join()
        self._file.close()

    def _opened(self) -> IO[bytes]:
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        return os.fdopen(descriptor, "r+b", buffering=0)

    def _found_end(self) -> AuditEnd:
        """The end of the file, from which the chain goes on; a half line, which a crash left, is cut."""
        size = self._file.seek(0, os.SEEK_END)
        self._file.seek(max(0, size - _TAIL_BYTES))
        data = self._file.read()
        whole, _, torn = data.rpartition(b"\n")
        if torn:
            log.warning("%s: its last line, of %d bytes, is not whole: it is cut", self._path, len(torn))
            self._file.truncate(size - len(torn))
        if not whole:
            return self._noted()
        end = read_end(whole.rpartition(b"\n")[2].decode("utf-8", "replace"))
        if end is None:
            raise ValueError(f"{self._path} does not end in a line of an audit log: move it away")
        return end

    def _noted(self) -> AuditEnd:
        """The end of the file before this one, which is new or was moved away."""
        try:
            with open(f"{self._path}.last", encoding="utf-8") as file:
                return read_end(file.read()) or AuditEnd()
        except FileNotFoundError:
            return AuditEnd()

    def _write_all(self) -> None:
        going = True
        while going:
            events = [self._waiting.get()]
            while len(events) < _MOST_AT_ONCE and not self._waiting.empty():
                events.append(self._waiting.get())
            going = None not in events
            self._write([event for event in events if event is not None])

    def _write(self, events: list[Mapping[str, object]]) -> None:
        with self._counting:
            lost, self._lost = self._lost, 0
        if lost:
            events.append({"time": time.time(), "broker": self._broker, "event": "lost", "events": lost})
        end, lines = self._end, []
        for event in events:
            line, end = audit_line(event, end)
            lines.append(line)
        try:
            self._follow_rename()
            size = self._file.seek(0, os.SEEK_END)
            try:
                self._write_whole("".join(lines).encode())
                os.fsync(self._file.fileno())
            except OSError:
                self._file.truncate(size)
                raise
        except OSError as fault:
            self._lose(len(events) - bool(lost) + lost)
            if not self._failed:
                log.error("%s cannot be written: %s; the events are counted", self._path, fault.strerror or fault)
            self._failed = True
            return
        self._failed = False
        self._end = end
        self._note_end(end)

    def _write_whole(self, data: bytes) -> None:
        """Write all bytes: a full disk may take some of them."""
        view = memoryview(data)
        while view:
            view = view[self._file.write(view) or 0 :]

    def _lose(self, events: int) -> None:
        with self._counting:
            self._lost += events

    def _follow_rename(self) -> None:
        try:
            same = os.stat(self._path).st_ino == os.fstat(self._file.fileno()).st_ino
        except FileNotFoundError:
            same = False
        if not same:
            self._file.close()
            self._file = self._opened()

    def _note_end(self, end: AuditEnd) -> None:
        fresh = f"{self._path}.last.new"
        try:
            with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
                json.dump({"number": end.lines, "chain": end.chain}, file)
            os.replace(fresh, f"{self._path}.last")
        except OSError as fault:
            log.error("%s.last cannot be written: %s; a cut end would not be found", self._path, fault.strerror)
