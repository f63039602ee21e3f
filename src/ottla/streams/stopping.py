"""Ends a run by a signal: the batch at work is finished first, for as long as that may take."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

STOP_WITHIN_S = 5.0
"""The batch at work may take so long after the signal. Without a broker it would take minutes."""
_AGAIN_S = 1.0
"""Closing a producer or a consumer may wait for a broker, too: each one is given up after so long."""
_log = logging.getLogger(__name__)


class StopOverdue(BaseException):
    """Raised where the run waits, once the time for an orderly end is over. No `except Exception` holds it."""


@contextmanager
def stopped_by_signals(stop: threading.Event, *, within_s: float | None = None) -> Iterator[None]:
    """SIGTERM and Ctrl-C set `stop`, where this is the main thread; a second signal acts as it did before.

    A block that goes on for `within_s` after the signal is left by StopOverdue, which ends here with a line of the log.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM)}

    def restore(*numbers: int) -> None:
        for number in numbers:
            signal.signal(number, before[signal.Signals(number)])

    def stop_once(_: int, __: FrameType | None) -> None:
        stop.set()
        restore(signal.SIGTERM, signal.SIGINT)
        if within_s is not None:
            signal.setitimer(signal.ITIMER_REAL, within_s, _AGAIN_S)

    def overdue(_: int, __: FrameType | None) -> None:
        raise StopOverdue

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop_once)
    if within_s is not None:
        signal.signal(signal.SIGALRM, overdue)
    try:
        yield
    except StopOverdue:
        signal.setitimer(signal.ITIMER_REAL, 0)
        _log.warning(
            "no orderly end within %g s of the signal: is a broker away? Results that are not committed are left out, "
            "and the next start processes their records again",
            within_s,
        )
    finally:
        if within_s is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)
        restore(*before)
