"""Logs for whose sync nobody waits: they are submitted together, some time after the last ones (decision 0027).

Pure, with times from outside: server/sync_loop.py and sim/syncer.py share it, and set its timer.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.kernel.seams import Syncable

UNAWAITED_SYNC_MS = 20
"""The syncs of such logs begin so long after each other."""
_LONG_AGO = float("-inf")


class Unawaited:
    """Gathers such logs until `ring` submits them."""

    __slots__ = ("_is_set", "_logs", "_rang_ms", "_submit")

    def __init__(self, submit: Callable[[Syncable], None]) -> None:
        self._submit = submit
        self._logs: dict[Syncable, None] = {}
        self._is_set = False
        """True from the answer of `add` that asks for a timer until `ring`."""
        self._rang_ms = _LONG_AGO

    def add(self, log: Syncable, now_ms: float) -> float | None:
        """Take a log; the milliseconds after which `ring` is to be called, or None if a call is to come already."""
        self._logs[log] = None
        if self._is_set:
            return None
        self._is_set = True
        return max(0.0, self._rang_ms + UNAWAITED_SYNC_MS - now_ms)

    def hurry(self, log: Syncable) -> None:
        """Submit a log at once, if it was added: somebody waits for it from now on."""
        if log in self._logs:
            del self._logs[log]
            self._submit(log)

    def ring(self, now_ms: float) -> None:
        """Submit all that were added."""
        self._is_set = False
        self._rang_ms = now_ms
        logs, self._logs = self._logs, {}
        for log in logs:
            self._submit(log)
