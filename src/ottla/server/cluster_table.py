"""The brokers of `ottla cluster up` on the screen: a table on a terminal, sentences in a log.

cluster_up.py makes the rows from what its processes do and from what client/admin/sight.py saw.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NamedTuple

from ottla.client.admin.sight import Share


class Row(NamedTuple):
    """A line of the table; what is not known is None."""

    broker: int
    state: str
    address: str | None
    pid: int | None
    share: Share | None
    controller: bool


_TITLES = ("BROKER", "STATE", "ADDRESS", "PID", "LEADS", "IN SYNC", "REPLICAS")


def table(rows: Sequence[Row], summary: str) -> list[str]:
    """Aligned columns under titles, and the summary."""
    cells = [_TITLES, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(_TITLES))]
    lines = ["  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in cells]
    return [*lines, summary]


def plain(row: Row) -> str:
    """The same as a sentence, for a log."""
    text = f"broker {row.broker} {row.state}"
    if row.address is not None:
        text += f" {row.address}"
    if row.share is not None:
        text += f", leads {row.share.leads}, in sync {row.share.in_sync} of {row.share.replicas}"
    return text + (", controller" if row.controller else "")


def _cells(row: Row) -> tuple[str, ...]:
    share = ("-", "-", "-") if row.share is None else (row.share.leads, row.share.in_sync, row.share.replicas)
    name = f"{row.broker} *" if row.controller else str(row.broker)
    return (name, row.state, row.address or "-", str(row.pid or "-"), *map(str, share))


class Screen:
    """Lines at the bottom of a terminal that are written over."""

    def __init__(self) -> None:
        self._shown = 0

    def show(self, lines: list[str]) -> None:
        up = f"\x1b[{self._shown}A" if self._shown else ""
        sys.stdout.write(up + "".join(f"\x1b[2K{line}\n" for line in lines) + "\x1b[J")
        sys.stdout.flush()
        self._shown = len(lines)

    def leave(self) -> None:
        """Leave the table as it is; the next output goes below it."""
        self._shown = 0
