"""A course of numbers as a small picture in SVG. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

WIDTH, HEIGHT = 160, 32


def sparkline(values: Sequence[float], label: str) -> str:
    """A line from the oldest value to the newest, from 0 to the greatest; a sentence says it to those who hear it."""
    top = max(values, default=0.0)
    caption = f"{label}: {shown(values[-1])} now, at most {shown(top)}" if values else f"{label}: not measured yet"
    head = (
        f'<svg class="spark" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img" '
        f'aria-label="{escape(caption)}" preserveAspectRatio="none">'
    )
    if len(values) < 2:
        return f"{head}</svg>"
    step = WIDTH / (len(values) - 1)
    scale = (HEIGHT - 4) / top if top > 0 else 0.0
    points = [f"{at * step:.1f},{HEIGHT - 2 - value * scale:.1f}" for at, value in enumerate(values)]
    area = f"0,{HEIGHT} {' '.join(points)} {WIDTH},{HEIGHT}"
    return f'{head}<polygon points="{area}"/><polyline points="{" ".join(points)}"/></svg>'


def shown(number: float | None) -> str:
    """A number for people: 1,234, 56.7 k, 8.9 M."""
    if number is None:
        return "?"
    if abs(number) < 10_000:
        return f"{number:,.0f}" if number == int(number) or abs(number) >= 100 else f"{number:.1f}"
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(number) >= size:
            return f"{number / size:,.1f} {unit}"
    return f"{number:,.0f}"


def size_shown(count: float | None) -> str:
    """Bytes for people, in steps of 1024."""
    if count is None:
        return "?"
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} PiB"
