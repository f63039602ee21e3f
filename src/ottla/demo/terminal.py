"""Output of the demo while it runs: one line a step, and the table at the end."""

from __future__ import annotations

import math
import sys
import time

from ottla.demo.delays import BLOCKS, Delays
from ottla.demo.picture import short

SHADES = (None, 229, 222, 215, 208, 202, 196)
"""Background colours of a 256-colour terminal, from no delay to a great one."""
STEP = 6.0
"""Minutes from one shade to the next."""


class Steps:
    """Numbered lines with the time each step took."""

    def __init__(self) -> None:
        self.began = time.monotonic()

    def say(self, text: str) -> None:
        """A finished step, or a fact."""
        print(f"{time.monotonic() - self.began:5.1f} s  {text}", flush=True)

    def progress(self, text: str) -> None:
        """Show the present step: one line that is written again and again on a terminal, nothing elsewhere."""
        if sys.stdout.isatty():
            print(f"\r\033[K         {text}", end="\r", flush=True)


def delays_table(delays: Delays) -> str:
    """Airlines by block of hours, shaded where the terminal can."""
    by_block = [delays.by_airline_between(first, last - 1) for first, last in BLOCKS]
    overall = delays.by_airline()
    width = max(len(short(name)) for name in delays.airlines())
    heads = [f"{first}-{last} h" for first, last in BLOCKS]
    lines = [
        f"{'mean delay, minutes':{width}}  "
        + "".join(f"{head:>7}  " for head in [*heads, "all day"])
        + "flights".rjust(9)
    ]
    for name in delays.airlines():
        cells = "".join(cell(block.get(name, float("nan"))) for block in by_block) + cell(overall[name])
        lines.append(f"{short(name):{width}}  {cells}{delays.flights(name):>9,}")
    total = int(delays.answer["flights"].sum())
    means = "".join(map(cell, (*delays.by_block(), delays.overall())))
    lines.append(f"{'All airlines':{width}}  {means}{total:>9,}")
    return "\n".join(lines)


def cell(value: float) -> str:
    """Nine columns: the minutes, on their shade."""
    if math.isnan(value):
        return f"{'·':>7}  "
    text = f"{value:7.1f}  "
    shade = SHADES[max(0, min(len(SHADES) - 1, int(value / STEP)))]
    if shade is None or not sys.stdout.isatty():
        return text
    return f"\033[48;5;{shade}m\033[38;5;16m{text}\033[0m"
