"""Workers: what a job needs of an engine is their `count`, and `map` of a function over items, results in order.

These run on this machine, in this process or in others; those of Spark are in spark/executors.py.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, Pipe, wait
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar

Given = TypeVar("Given")
Made = TypeVar("Made")

THIS_MACHINE = "127.0.0.1"
_SERVE = "import sys; sys.path[:] = {path!r}; from ottla.rows.workers import serve; serve({descriptor})"


class TaskFailed(Exception):
    """A task on this machine failed. The text is the type and the text of its error, as Spark tells them."""


class Workers(Protocol):
    """Run tasks side by side."""

    @property
    def count(self) -> int:
        """The number of tasks that run at the same time."""

    @property
    def host(self) -> str:
        """The address by which tasks reach this process."""

    def map(self, work: Callable[[Given], Made], given: Sequence[Given]) -> list[Made]:
        """Run `work` for each item; the results in the order of the items. One failed task fails all."""


class Here:
    """Runs tasks in this process, one after the other: for little work that is the quickest."""

    host = THIS_MACHINE

    def __init__(self, count: int = 1) -> None:
        self.count = count

    def map(self, work: Callable[[Given], Made], given: Sequence[Given]) -> list[Made]:
        made = []
        for each in given:
            try:
                made.append(work(each))
            except Exception as fault:
                raise TaskFailed(_said(fault)) from fault
        return made


class Processes:
    """Runs tasks in processes of their own, which are kept for later tasks until `close`.

    They run the same Python with the same path, but not the caller's program: a script needs no guard against being
    run again, as it would with multiprocessing's own. Their life hangs on a socket: they end when this process does.
    """

    host = THIS_MACHINE

    def __init__(self, count: int) -> None:
        self.count = count
        self._idle: list[_Process] = []

    def map(self, work: Callable[[Given], Made], given: Sequence[Given]) -> list[Made]:
        """Run the tasks. Where one fails or its process dies, the others are ended and TaskFailed tells why."""
        made: dict[int, Made] = {}
        waiting = list(enumerate(given))[::-1]
        busy: dict[Any, tuple[_Process, int]] = {}
        try:
            while waiting or busy:
                while waiting and len(busy) < self.count:
                    process = self._ready()
                    index, item = waiting.pop()
                    busy[process.connection] = process, index
                    process.begin(work, item)
                for ready in wait(list(busy)):
                    process, index = busy[ready]
                    made[index] = process.result()
                    self._idle.append(process)
                    del busy[ready]
        except BaseException:
            for process, _ in busy.values():
                process.end()
            raise
        return [made[index] for index in range(len(given))]

    def _ready(self) -> _Process:
        """A process that waits for tasks, or a new one. One that died while it waited harms nothing."""
        while self._idle:
            found = self._idle.pop()
            if found.alive:
                return found
            found.end()
        return _Process()

    def close(self) -> None:
        """End the processes that wait for tasks."""
        while self._idle:
            self._idle.pop().end()


class _Process:
    """One process of ours, seen from here."""

    def __init__(self) -> None:
        self.connection, theirs = Pipe()
        code = _SERVE.format(path=sys.path, descriptor=theirs.fileno())
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", code],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # a terminal's Ctrl-C is for us: we end the tasks, or let them finish
            )

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def begin(self, work: Callable[[Any], object], given: object) -> None:
        try:
            self.connection.send_bytes(pickle.dumps((work, given)))
        except OSError as fault:
            raise TaskFailed(self._death()) from fault

    def result(self) -> Any:
        """The result of the task, which has ended; TaskFailed where it has none."""
        try:
            done, result = self.connection.recv()
        except (EOFError, OSError) as fault:
            raise TaskFailed(self._death()) from fault
        if not done:
            raise TaskFailed(result)
        return result

    def end(self) -> None:
        """End it at once, also in the midst of a task."""
        self.connection.close()
        self._process.kill()
        self._process.wait()

    def _death(self) -> str:
        status = self._process.wait()
        if status == -signal.SIGKILL:
            return "a worker process was killed (SIGKILL); the kernel does that where memory is short"
        how = f"by signal {signal.Signals(-status).name}" if status < 0 else f"with status {status}"
        return f"a worker process ended {how} before its task was done"


def cores() -> int:
    """The number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def serve(descriptor: int) -> None:
    """In a worker process: run the tasks that come, one after the other, and end once their sender is gone."""
    connection = Connection(descriptor)
    tasks: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_take, args=(connection, tasks), daemon=True).start()
    while True:
        text = tasks.get()
        try:
            work, given = pickle.loads(text)
            answer = pickle.dumps((True, work(given)))
        except Exception as fault:
            answer = pickle.dumps((False, _said(fault)))
        connection.send_bytes(answer)


def _take(connection: Any, tasks: SimpleQueue[bytes]) -> None:
    """Take tasks in while one runs, so that the end of their sender is seen at once."""
    try:
        while True:
            tasks.put(connection.recv_bytes())
    except (EOFError, OSError):
        os._exit(1)


def _said(fault: Exception) -> str:
    """`ottla.stores.base.LakeRefused: the sentence`."""
    return "".join(traceback.format_exception_only(fault)).strip()
