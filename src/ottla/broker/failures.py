"""Failures that this broker cannot pass over: a disk that fails, and a state that it finds untrue.

Any part comes here by its environment. With the first failure that the broker cannot go on without, it stops.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from traceback import format_exception

log = logging.getLogger("ottla.node")


class Failures:
    """`reason` says why the broker stops, once it must."""

    def __init__(self, on_fatal: Callable[[str], None]) -> None:
        """`on_fatal` is called once, with the sentence why this broker stops."""
        self.on_fatal = on_fatal
        self.reason: str | None = None
        self.go_on_without: Callable[[OSError], str | None] = _stop_for_any
        """Take the log directory that an error names offline; the reason why the broker cannot go on, or None."""

    def stop_for(self, why: str) -> None:
        """The broker cannot go on."""
        if self.reason is None:
            self.reason = why
            log.error("%s", why)
            self.on_fatal(why)

    def broken(self, error: Exception) -> None:
        """An invariant does not hold: nothing that this broker says can be trusted any more (rule F)."""
        self.stop_for(f"the broker found its own state untrue and stops: {''.join(format_exception(error))}")

    def disk_failed(self, error: OSError) -> None:
        """The log directory that the error names is offline, and with the last of them the process stops (rule B3)."""
        if self.reason is None and (why := self.go_on_without(error)) is not None:
            self.stop_for(why)


def _stop_for_any(error: OSError) -> str | None:
    """Before there are log directories."""
    return f"a disk failed: {error}"
