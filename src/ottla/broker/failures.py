"""Failures that this broker must act on: a failed disk, or a broken invariant.

All parts reach it through their environment. The broker stops at the first failure that it cannot survive.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from traceback import format_exception

log = logging.getLogger("ottla.node")


class Failures:
    """Stops the broker for a failure that it cannot survive; `reason` is set then."""

    def __init__(self, on_fatal: Callable[[str], None]) -> None:
        """`on_fatal` is called once, with the reason why this broker stops."""
        self.on_fatal = on_fatal
        self.reason: str | None = None
        self.go_on_without: Callable[[OSError], str | None] = _stop_for_any
        """Take the log directory that an error names offline; the reason why the broker cannot go on, or None."""

    def stop_for(self, why: str) -> None:
        """Stop the broker for this reason."""
        if self.reason is None:
            self.reason = why
            log.error("%s", why)
            self.on_fatal(why)

    def broken(self, error: Exception) -> None:
        """Stop for a broken invariant: no answer of this broker can be trusted any more (rule F)."""
        self.stop_for(f"the broker found its own state wrong and stops: {''.join(format_exception(error))}")

    def disk_failed(self, error: OSError) -> None:
        """Take the log directory that the error names offline; with the last one the process stops (rule B3)."""
        if self.reason is None and (why := self.go_on_without(error)) is not None:
            self.stop_for(why)


def _stop_for_any(error: OSError) -> str | None:
    """Stop for any error, as long as there are no log directories."""
    return f"a disk failed: {error}"
