"""The moving line of a job on a terminal, and whole lines in its place."""

from __future__ import annotations

import os
import sys
import time
from types import TracebackType

CLEAR = "\r\x1b[K"
"""Goes to the line's begin and clears it."""
_EVERY_S = 0.2


class ProgressLine:
    """One line on stderr that is overwritten, where that is a terminal; nothing elsewhere. A context manager."""

    def __init__(self) -> None:
        self._shows = sys.stderr.isatty()
        self._next_s = time.monotonic() + _EVERY_S
        self._shown = False

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, _: TracebackType | None) -> None:
        if self._shown:
            sys.stderr.write(CLEAR)
            sys.stderr.flush()

    def show(self, text: str) -> None:
        """Show a text in the place of the last one, a few times a second at most."""
        now_s = time.monotonic()
        if not self._shows or now_s < self._next_s:
            return
        self._next_s, self._shown = now_s + _EVERY_S, True
        sys.stderr.write(f"{CLEAR}{text[: os.get_terminal_size(sys.stderr.fileno()).columns - 1]}")
        sys.stderr.flush()


def to_stderr(text: str) -> None:
    """Print a line, in the place of a moving one on a terminal."""
    clear = CLEAR if sys.stderr.isatty() else ""
    sys.stderr.write(f"{clear}{text}\n")
    sys.stderr.flush()
