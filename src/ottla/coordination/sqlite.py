"""The metadata log in one SQLite file shared by all brokers of a machine (rule C7).

A worker thread owns the connection and does everything that may block; `presence.py` tells who is alive. The broker's
loop calls the methods of `Coordination`, and the worker fills their slots there.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from ottla.coordination.ages import raise_age
from ottla.coordination.database import JOURNAL, Database, DatabaseFailure
from ottla.coordination.presence import Doorbell, Presence, refuse_network_file_system
from ottla.kernel.ids import BrokerId
from ottla.kernel.seams import Conflict, LogEntry, StoreDamaged, StoredSnapshot, Unknown, Written
from ottla.kernel.story import Slot

T = TypeVar("T")
POLL_MS = 100
"""The pause between two looks at the file, for changes whose datagram was lost, and at the locks of the dead."""
FILE_NAME = "metadata.db"
Outcome = Written | Conflict | Unknown


class SqliteCoordination:
    """One broker's access to the shared file."""

    def __init__(
        self,
        directory: str,
        broker_id: BrokerId,
        call_soon_threadsafe: Callable[[Callable[[], None]], object],
        *,
        session_timeout_ms: int = 6000,
        journal: str = JOURNAL,
    ) -> None:
        """Takes this broker's lock at once; OSError if it is taken, or the place is not fit.

        `journal` is SQLite's journal mode; tests run others beside ottla's own.
        """
        os.makedirs(directory, exist_ok=True)
        refuse_network_file_system(directory)
        brokers = os.path.join(directory, "brokers")
        self._ages = brokers
        self._presence = Presence(brokers, broker_id, session_timeout_ms=session_timeout_ms)
        self._doorbell = Doorbell(brokers, broker_id)
        self._call_soon = call_soon_threadsafe
        self._listener: Callable[[], None] | None = None
        self._live = self._presence.look()
        self._work: deque[Callable[[Database], None]] = deque()
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._closing = False
        self._suspicious = False
        self._asked_ms = _now_ms()
        path = self.name = os.path.join(directory, FILE_NAME)
        self._thread = threading.Thread(target=self._run, args=(path, journal), name="ottla-metadata", daemon=True)
        self._thread.start()

    # Coordination, on the broker's loop

    def append(self, entries: Sequence[bytes], expected_version: int) -> Slot[Outcome]:
        bodies = list(entries)

        def run(database: Database) -> Outcome:
            outcome = database.append(bodies, expected_version)
            if isinstance(outcome, Written):
                self._doorbell.ring()
            return outcome

        return self._submit(run)

    def read(self, after_version: int, limit: int = 1000) -> Slot[list[LogEntry]]:
        return self._submit(lambda database: database.read(after_version, limit))

    def head(self) -> Slot[int]:
        return self._submit(lambda database: database.head())

    def load_snapshot(self) -> Slot[StoredSnapshot | None]:
        return self._submit(lambda database: database.load_snapshot())

    def save_snapshot(self, snapshot: StoredSnapshot) -> Slot[None]:
        return self._submit(lambda database: database.save_snapshot(snapshot))

    def raise_age(self, name: str, age: int) -> Slot[int]:
        return self._submit(lambda _: raise_age(self._ages, name, age))

    def on_change(self, listener: Callable[[], None]) -> None:
        self._listener = listener

    def live(self) -> frozenset[BrokerId]:
        return self._live

    def look_now(self) -> None:
        """Look at the locks at once, as a broker seems to be gone, and have the others look if it is."""
        if not self._closing:
            self._suspicious = True
            self._wake()

    def close(self) -> None:
        """End all queued work, then free the lock; others see this broker gone."""
        if not self._closing:
            self._closing = True
            self._wake()
            self._thread.join(timeout=10)
            self._presence.close()
            self._doorbell.close()
            os.close(self._wake_read)
            os.close(self._wake_write)

    def _submit(self, run: Callable[[Database], T]) -> Slot[T]:
        slot: Slot[T] = Slot()
        self._asked_ms = _now_ms()

        def work(database: Database) -> None:
            try:
                value = run(database)
            except (LookupError, OSError, StoreDamaged) as error:
                self._on_loop(partial(slot.fail, error))
            except DatabaseFailure as failure:
                self._on_loop(partial(slot.fail, OSError(str(failure))))
            else:
                self._on_loop(lambda: slot.fill(value))

        if self._closing:
            slot.fail(OSError("the metadata store is closed"))
        else:
            self._work.append(work)
            self._wake()
        return slot

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake_write, b"\0")

    # The worker thread

    def _run(self, path: str, journal: str) -> None:
        database = Database(path, journal)
        poll = select.poll()
        poll.register(self._wake_read, select.POLLIN)
        poll.register(self._doorbell.socket, select.POLLIN)
        due_ms = _now_ms() + POLL_MS
        beaten_ms = 0
        try:
            while not (self._closing and not self._work):
                if self._asked_ms != beaten_ms:  # a request shows that the loop has turned
                    beaten_ms = self._asked_ms
                    with contextlib.suppress(OSError):  # others see no heartbeat then, and rightly
                        self._presence.beat(beaten_ms)
                if self._suspicious:
                    self._suspicious = False
                    self._look_around(database)
                if self._work:
                    self._work.popleft()(database)
                    continue
                rung = self._wait(poll, max(0, due_ms - _now_ms()))
                if rung or _now_ms() >= due_ms:
                    due_ms = _now_ms() + POLL_MS
                    self._look_around(database)
        finally:
            database.close()

    def _wait(self, poll: select.poll, timeout_ms: int) -> bool:
        """Sleep until there is something to do; return whether the doorbell rang."""
        rung = False
        for descriptor, _ in poll.poll(timeout_ms):
            if descriptor == self._wake_read:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake_read, 4096)
            else:
                self._doorbell.drain()
                rung = True
        return rung

    def _look_around(self, database: Database) -> None:
        """Look for a change of the living, and tell the other brokers, which then look once each.

        A look that fails shows nothing new; there is another one soon.
        """
        live = self._live
        with contextlib.suppress(OSError):
            live = self._presence.look()
        changed = live != self._live
        self._live = live
        if changed:
            self._doorbell.ring()
        with contextlib.suppress(DatabaseFailure, StoreDamaged, OSError):
            changed = database.changed_by_others() or changed
            database.tend()
        if changed and self._listener is not None:
            self._on_loop(self._listener)

    def _on_loop(self, callback: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: no request waits any more
            self._call_soon(callback)


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
