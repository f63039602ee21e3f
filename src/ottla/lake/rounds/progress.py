"""Progress inside a round: tasks send their counts to the driver, which shows them on a terminal or in plain lines.

A count is one datagram. Lost ones do no harm: the next has the whole count of its task again.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import shutil
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType

from ottla.jobs.progress import CLEAR, to_stderr
from ottla.rows.workers import THIS_MACHINE

EVERY_S = 0.5
PLAIN_EVERY_S = 10.0
_LARGEST = 512


@dataclass(slots=True)
class RoundCounts:
    """The records that the tasks of a round's present phase have read. Pure."""

    title: str
    planned: int
    phase: str = "reading"
    run: int = 0
    """The number of the phase: counts of an earlier one come too late."""
    by_task: dict[int, int] = field(default_factory=dict)

    def begin(self, phase: str) -> None:
        """Begin a phase; its tasks count from zero."""
        self.phase, self.run = phase, self.run + 1
        self.by_task = {}

    def take(self, run: int, task: int, records: int) -> None:
        """Take the count of a task; a task that runs again begins at zero again."""
        if run == self.run:
            self.by_task[task] = records

    def text(self, seconds: float) -> str:
        """`round 0: reading, 120,000 of 500,000 records (24%), 40,000/s`."""
        read = min(sum(list(self.by_task.values())), self.planned)  # another thread adds tasks
        if not read:
            return f"{self.title}: {self.phase} {self.planned:,} records, {seconds:.0f} s so far"
        share, speed = 100 * read // max(1, self.planned), read / max(seconds, 0.001)
        return f"{self.title}: {self.phase}, {read:,} of {self.planned:,} records ({share}%), {speed:,.0f}/s"


@dataclass(slots=True)
class Pulse:
    """A task's way to the driver. Sends the count of the task now and then; a fault is ignored."""

    host: str
    port: int
    token: str
    run: int
    task: int
    records: int = 0
    due: float = 0.0

    def add(self, records: int) -> None:
        """Count records; send the sum where the last time is a while ago."""
        self.records += records
        now = time.monotonic()
        if now < self.due:
            return
        self.due = now + EVERY_S
        body = json.dumps([self.token, self.run, self.task, self.records]).encode()
        with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
            out.setblocking(False)
            out.sendto(body, (self.host, self.port))


class RoundProgress:
    """Shows the counts of one round while it is at work; a context manager.

    `host` is the address by which tasks reach this process; without one they do not tell their counts.
    """

    def __init__(self, title: str, planned: int, host: str | None, tell: Callable[[str], None]) -> None:
        self._counts = RoundCounts(title, planned)
        self._host, self._tell = host, tell
        self._token = secrets.token_hex(8)
        self._done = threading.Event()
        self._began = time.monotonic()
        self._socket: socket.socket | None = None
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> RoundProgress:
        if self._host is not None:
            self._listen(local=self._host == THIS_MACHINE)
        self._start(self._show_on_terminal if on_terminal(self._tell) else self._show_plainly)
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, _: TracebackType | None) -> None:
        self._done.set()
        if self._socket is not None:
            self._socket.sendto(b"", (THIS_MACHINE, self._socket.getsockname()[1]))  # wakes the thread that receives
        for thread in self._threads:
            thread.join()
        if self._socket is not None:
            self._socket.close()

    def begin(self, phase: str) -> None:
        """Begin a phase of the round."""
        self._counts.begin(phase)
        self._began = time.monotonic()

    def pulse(self, task: int) -> Pulse | None:
        """The way to here for a task of the present phase."""
        if self._socket is None or self._host is None:
            return None
        return Pulse(self._host, self._socket.getsockname()[1], self._token, self._counts.run, task)

    def _listen(self, *, local: bool) -> None:
        """Take counts, from this machine alone where the tasks run here."""
        with contextlib.suppress(OSError):
            made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            made.settimeout(EVERY_S)
            made.bind((THIS_MACHINE if local else "", 0))
            self._socket = made
            self._start(self._receive)

    def _start(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, name="ottla-lake-progress", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _receive(self) -> None:
        assert self._socket is not None
        while not self._done.is_set():
            try:
                token, run, task, records = json.loads(self._socket.recv(_LARGEST))
            except (OSError, ValueError, TypeError):
                continue
            if token == self._token:
                self._counts.take(run, task, records)

    def _text(self) -> str:
        return self._counts.text(time.monotonic() - self._began)

    def _show_on_terminal(self) -> None:
        while not self._done.wait(EVERY_S):
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write(f"{CLEAR}{self._text()[:width]}")
            sys.stderr.flush()
        sys.stderr.write(CLEAR)
        sys.stderr.flush()

    def _show_plainly(self) -> None:
        while not self._done.wait(PLAIN_EVERY_S):
            self._tell(self._text())


def on_terminal(tell: Callable[[str], None]) -> bool:
    """True where lines go to a terminal, and one may move there."""
    return getattr(tell, "__wrapped__", tell) is to_stderr and sys.stderr.isatty()
