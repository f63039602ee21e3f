"""Shows on a terminal how much of an input is sent: one line on stderr, overwritten; nothing elsewhere."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ottla.client.produce.run import Run

if TYPE_CHECKING:
    from ottla.cli.input.reading import Inputs

_EVERY_S = 0.2
_WIDTH = 30
_CLEAR = "\r\x1b[2K"


class ProduceProgress:
    """A bar where the size of the inputs is known, else the number of records."""

    def __init__(self, inputs: Inputs) -> None:
        self._inputs = inputs
        self._shows = sys.stderr.isatty()
        self._started_s = time.monotonic()
        self._next_s = self._started_s + _EVERY_S
        self._records = 0
        self._shown = False

    def __enter__(self) -> ProduceProgress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()

    def over(self, runs: Iterable[Run]) -> Iterator[Run]:
        """The same runs; the line is renewed as they are taken."""
        for run in runs:
            self._records += len(run.values)
            if self._shows and time.monotonic() >= self._next_s:
                self._show()
            yield run

    def _show(self) -> None:
        now_s = time.monotonic()
        self._next_s = now_s + _EVERY_S
        self._shown = True
        text = progress_line(self._records, self._inputs.bytes_read, self._inputs.size, now_s - self._started_s)
        sys.stderr.write(_CLEAR + text[: shutil.get_terminal_size().columns - 1])
        sys.stderr.flush()


def progress_line(records: int, bytes_read: int, size: int, seconds: float) -> str:
    """`[#####.....]  50 %  1,000,000 records, 500,000/s`."""
    rate = f"{records:,} records, {records / max(seconds, 1e-9):,.0f}/s"
    if not size:
        return rate
    part = min(bytes_read / size, 1.0)
    bar = "#" * int(part * _WIDTH)
    return f"[{bar:.<{_WIDTH}}] {part:4.0%}  {rate}"
