"""A pipeline as text and as a picture in SVG, for light and dark: parts, topics, and what flows between them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape

from ottla.pipeline.check import Flows
from ottla.pipeline.parts import Pipeline

_STYLE = """
.page { fill: #ffffff; } text { font: 13px system-ui, sans-serif; fill: #1f2328; }
.quiet { fill: #656d76; font-size: 11px; } .topic { fill: #ddf4ff; stroke: #2b74b3; }
.part { fill: #f6f8fa; stroke: #656d76; } .bad { fill: #ffebe9; stroke: #cf222e; }
.line { fill: none; stroke: #656d76; marker-end: url(#tip); }
@media (prefers-color-scheme: dark) {
.page { fill: #0f1419; } text { fill: #e6edf3; } .quiet { fill: #8d96a0; }
.topic { fill: #17324a; stroke: #4a97d1; } .part { fill: #161b22; stroke: #8d96a0; }
.bad { fill: #3c1618; stroke: #f85149; } .line { stroke: #8d96a0; } }
"""
_LETTER, _HEIGHT, _DOWN, _ACROSS, _EDGE = 7.4, 44, 62, 70, 24


@dataclass(frozen=True, slots=True)
class LiveNotes:
    """Notes about a running pipeline: `notes` by the name of a box, such as a rate; `bad` boxes are in trouble."""

    notes: Mapping[str, str]
    bad: frozenset[str] = frozenset()


NOTHING_LIVE = LiveNotes({})


def edges(pipeline: Pipeline, flows: Flows) -> list[tuple[str, str]]:
    """From box to box: parts by their labels, topics by their names."""
    found: list[tuple[str, str]] = []
    labels = {part.at: part.label for part in pipeline.parts}
    for at, flow in flows.items():
        label = labels[at]
        known = {part.name for part in pipeline.of("topics")} | {
            topic for each in flows.values() for topic in each.writes
        }
        found += [(topic, label) for topic in _named(flow.reads, (t for t in sorted(known) if flow.may_read(t)))]
        found += [(label, topic) for topic in _named(flow.writes, (t for t in sorted(known) if flow.may_write(t)))]
        if at[0] == "lakes":
            found.append((label, str(next(part for part in pipeline.parts if part.at == at).values["to"])))
    return list(dict.fromkeys(found))


def _named(names: tuple[str, ...], more: Iterator[str]) -> list[str]:
    return list(dict.fromkeys([*names, *more]))


def text(pipeline: Pipeline, flows: Flows, live: LiveNotes = NOTHING_LIVE) -> str:
    """One line a flow, what writes on the left; boxes without flows by themselves."""
    drawn = edges(pipeline, flows)
    left = max((len(one) for one, _ in drawn), default=0)
    lines = [f"{one:<{left}}  ->  {other}{_note(live, other)}" for one, other in drawn]
    alone = {part.label for part in pipeline.parts if part.section == "mirrors"} - {
        box for edge in drawn for box in edge
    }
    return "".join(f"{line}\n" for line in [*lines, *sorted(alone)])


def _note(live: LiveNotes, box: str) -> str:
    return f"  ({live.notes[box]})" if box in live.notes else ""


def svg(pipeline: Pipeline, flows: Flows, live: LiveNotes = NOTHING_LIVE) -> str:
    """From left to right: every box right of all that flows into it, as far as there is no circle."""
    drawn = edges(pipeline, flows)
    columns = _columns(drawn)
    topics = {part.name for part in pipeline.of("topics")} | {topic for flow in flows.values() for topic in flow.writes}
    topics |= {topic for flow in flows.values() for topic in flow.reads}
    places, x = {}, float(_EDGE)
    for column in columns:
        width = max(max(len(box), len(live.notes.get(box, ""))) for box in column) * _LETTER + 24
        for row, box in enumerate(column):
            places[box] = (x, _EDGE + row * _DOWN, width)
        x += width + _ACROSS
    height = _EDGE * 2 + max((len(column) for column in columns), default=1) * _DOWN - (_DOWN - _HEIGHT)
    lines = [_line(places[one], places[other]) for one, other in drawn]
    boxes = [_box(box, place, box in topics, live) for box, place in places.items()]
    width = max(x - _ACROSS + _EDGE, 280)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" role="img" '
        f'aria-label="pipeline {escape(pipeline.name)}">\n<style>{_STYLE}</style>\n'
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0 L8 4 L0 8 z" fill="#656d76"/></marker></defs>\n'
        f'<rect class="page" width="{width:.0f}" height="{height:.0f}"/>\n{"".join(lines)}{"".join(boxes)}</svg>\n'
    )


def _columns(drawn: list[tuple[str, str]]) -> list[list[str]]:
    boxes = list(dict.fromkeys(box for edge in drawn for box in edge))
    level = dict.fromkeys(boxes, 0)
    for _ in boxes:  # the longest way to each box; a circle ends with the number of boxes
        moved = False
        for one, other in drawn:
            if level[other] <= level[one] < len(boxes) - 1:
                level[other] = level[one] + 1
                moved = True
        if not moved:
            break
    return [column for number in sorted(set(level.values())) if (column := [b for b in boxes if level[b] == number])]


def _line(one: tuple[float, float, float], other: tuple[float, float, float]) -> str:
    x, y, width = one
    to_x, to_y, _ = other
    x, y, to_y = x + width, y + _HEIGHT / 2, to_y + _HEIGHT / 2
    bend = _ACROSS / 2 if to_x > x else -_ACROSS
    way = f"M{x:.0f} {y:.0f} C{x + bend:.0f} {y:.0f} {to_x - bend:.0f} {to_y:.0f} {to_x:.0f} {to_y:.0f}"
    return f'<path class="line" d="{way}"/>\n'


def _box(box: str, place: tuple[float, float, float], is_topic: bool, live: LiveNotes) -> str:
    x, y, width = place
    kind = "bad" if box in live.bad else "topic" if is_topic else "part"
    note = live.notes.get(box)
    middle = y + (18 if note else 26)
    size = f'x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{_HEIGHT}"'
    drawn = f'<rect class="{kind}" {size} rx="{18 if is_topic else 6}"/>\n'
    drawn += f'<text x="{x + width / 2:.0f}" y="{middle:.0f}" text-anchor="middle">{escape(box)}</text>\n'
    if note:
        drawn += (
            f'<text class="quiet" x="{x + width / 2:.0f}" y="{y + 35:.0f}" text-anchor="middle">{escape(note)}</text>\n'
        )
    return drawn
