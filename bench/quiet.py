"""Measures how much others use this machine. A race waits before each line until that is little, and notes it after."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from types import TracebackType

from bench.brokers import TICKS
from bench.others import Others, processes_now

LOAD_PER_CORE = 0.3
"""The highest load average at which a race begins."""
OTHERS = 0.05
"""The share of all cores that others may use while a line is measured."""
WINDOW_S = 3.0
LOOK_EVERY_S = 1.0
"""A look costs some 3 ms. A process that nobody waits for, and that lives shorter than this, may be missed."""


class Watch:
    """`with Watch(root) as watch:` looks at the machine again and again; `share` is what others used meanwhile."""

    def __init__(self, root: int) -> None:
        self._others = Others(root)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look_on, daemon=True)
        self.seconds = 0.0

    def __enter__(self) -> Watch:
        self._others.look(processes_now())
        self._began = time.monotonic()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        self._others.look(processes_now())
        self.seconds = time.monotonic() - self._began

    @property
    def share(self) -> float:
        """The part of all cores that others used from beginning to end, 0 to 1."""
        return share(self._others.ticks, self.seconds, os.cpu_count() or 1)

    def _look_on(self) -> None:
        while not self._ended.wait(LOOK_EVERY_S):
            self._others.look(processes_now())


def share(ticks: int, seconds: float, cores: int) -> float:
    """The part of all cores that so many ticks of the clock are."""
    return ticks / TICKS / (max(seconds, 1 / TICKS) * cores)


def wait_until_quiet(root: int, say: Callable[[str], None], *, at_most_s: float, load: bool = False) -> bool:
    """Return once others use little of the machine (and, with `load`, its load average is low); False at the limit.

    Others are the processes outside the family of `root`.
    """
    cores, until = os.cpu_count() or 1, time.monotonic() + at_most_s
    while True:
        with Watch(root) as watch:
            time.sleep(WINDOW_S)
        average = os.getloadavg()[0] / cores
        if watch.share <= OTHERS and (average <= LOAD_PER_CORE or not load):
            return True
        if time.monotonic() > until:
            return False
        say(f"waiting for a quiet machine: others use {watch.share:.0%} of it, load {average:.2f} per core")
