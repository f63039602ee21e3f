"""A topology as a picture in SVG, for light and dark: sub-topologies with their nodes, topics and stores. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

from ottla.streams.graph import AnyNode, ProcessorNode, SinkNode, SourceNode, SubTopology, Topology

_STYLE = """
.page { fill: #ffffff; } text { font: 13px system-ui, sans-serif; fill: #1f2328; }
.quiet { fill: #656d76; font-size: 12px; } .part { fill: #f6f8fa; stroke: #d0d7de; }
.node { fill: #ffffff; stroke: #656d76; } .topic { fill: #ddf4ff; stroke: #2b74b3; }
.own { fill: #fff8c5; stroke: #9a6700; } .store { fill: #e6f4ea; stroke: #1a7f37; }
.line { fill: none; stroke: #656d76; marker-end: url(#tip); }
.uses { fill: none; stroke: #1a7f37; stroke-dasharray: 4 3; }
@media (prefers-color-scheme: dark) {
.page { fill: #0f1419; } text { fill: #e6edf3; } .quiet { fill: #8d96a0; }
.part { fill: #161b22; stroke: #30363d; } .node { fill: #0f1419; stroke: #8d96a0; }
.topic { fill: #17324a; stroke: #4a97d1; } .own { fill: #3a2f0b; stroke: #e3b341; }
.store { fill: #12301d; stroke: #56d364; } .line { stroke: #8d96a0; } .uses { stroke: #56d364; } }
"""
_LETTER, _HEIGHT, _DOWN, _ACROSS, _EDGE = 7.4, 32, 66, 28, 24


@dataclass(slots=True)
class _Box:
    """A node, a topic or a store: its text, its place, and the boxes that lines lead to."""

    text: str
    kind: str
    level: int
    x: float = 0.0
    y: float = 0.0

    @property
    def width(self) -> float:
        return max(72.0, len(self.text) * _LETTER + 24)


def svg(topology: Topology) -> str:
    """The whole picture."""
    pieces, y, width = [], float(_EDGE), 0.0
    for part in topology.sub_topologies:
        drawn, across, down = _part(topology, part, y)
        pieces.append(drawn)
        y, width = y + down + _EDGE, max(width, across)
    width = max(width + 2 * _EDGE, 280)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {y:.0f}" role="img" aria-label="topology">\n'
        f"<style>{_STYLE}</style>\n"
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0 L8 4 L0 8 z" fill="#656d76"/></marker></defs>\n'
        f'<rect class="page" width="{width:.0f}" height="{y:.0f}"/>\n{"".join(pieces)}</svg>\n'
    )


def _part(topology: Topology, part: SubTopology, top: float) -> tuple[str, float, float]:
    """One sub-topology below `top`: its text, its width and its height."""
    boxes, lines = _boxes([topology.nodes[name] for name in part.nodes])
    levels: dict[int, list[_Box]] = {}
    for box in boxes.values():
        levels.setdefault(box.level, []).append(box)
    first = min(levels)
    width = max(sum(box.width for box in row) + _ACROSS * (len(row) - 1) for row in levels.values()) + 2 * _ACROSS
    for level, row in levels.items():
        x = _EDGE + (width - sum(box.width for box in row) - _ACROSS * (len(row) - 1)) / 2
        for box in row:
            box.x, box.y = x, top + 40 + (level - first) * _DOWN
            x += box.width + _ACROSS
    height = 40 + (max(levels) - first) * _DOWN + _HEIGHT + 20
    title = f"sub-topology {part.number}" + (", whole in every task" if part.is_global else "")
    drawn = [
        f'<rect class="part" x="{_EDGE}" y="{top:.0f}" width="{width:.0f}" height="{height:.0f}" rx="10"/>\n',
        f'<text class="quiet" x="{_EDGE + 14}" y="{top + 22:.0f}">{title}</text>\n',
        *(_line(boxes[one], boxes[other]) for one, other in lines),
        *(_drawn(box) for box in boxes.values()),
    ]
    return "".join(drawn), width, height


def _boxes(nodes: Iterable[AnyNode]) -> tuple[dict[str, _Box], list[tuple[str, str]]]:
    """The boxes, each below all that lead to it, and the lines between them."""
    boxes: dict[str, _Box] = {}
    lines: list[tuple[str, str]] = []
    for node in nodes:
        level = max((boxes[parent].level + 1 for parent in node.parents), default=0)
        kind = "own" if isinstance(node, SourceNode | SinkNode) and node.repartition else "topic"
        boxes[node.name] = _Box(_short(node.name), "node", level)
        lines += [(parent, node.name) for parent in node.parents]
        if isinstance(node, SourceNode):
            for topic in node.shown_topics:
                boxes[f"from {topic}"] = _Box(topic, kind, level - 1)
                lines.append((f"from {topic}", node.name))
        elif isinstance(node, SinkNode):
            topic = node.topic if isinstance(node.topic, str) else "topic by a function"
            boxes[f"{node.name} to {topic}"] = _Box(topic, kind, level + 1)
            lines.append((node.name, f"{node.name} to {topic}"))
        elif isinstance(node, ProcessorNode):
            for store in node.stores:
                boxes.setdefault(f"store {store}", _Box(_short(store), "store", level + 1))
                lines.append((node.name, f"store {store}"))
    return boxes, lines


def _line(one: _Box, other: _Box) -> str:
    kind = "uses" if other.kind == "store" else "line"
    x, y, to_x, to_y = one.x + one.width / 2, one.y + _HEIGHT, other.x + other.width / 2, other.y
    if to_y < y:  # a store that an earlier node made
        y, to_y = one.y, other.y + _HEIGHT
    middle = (y + to_y) / 2
    curve = f"M{x:.0f} {y:.0f} C{x:.0f} {middle:.0f} {to_x:.0f} {middle:.0f} {to_x:.0f} {to_y:.0f}"
    return f'<path class="{kind}" d="{curve}"/>\n'


def _drawn(box: _Box) -> str:
    round_by = 4 if box.kind == "node" else 16
    return (
        f'<rect class="{box.kind}" x="{box.x:.0f}" y="{box.y:.0f}" width="{box.width:.0f}" height="{_HEIGHT}" '
        f'rx="{round_by}"/><text x="{box.x + box.width / 2:.0f}" y="{box.y + 21:.0f}" text-anchor="middle">'
        f"{escape(box.text)}</text>\n"
    )


def _short(name: str) -> str:
    """A numbered name without its zeros: KSTREAM-FILTER-12."""
    base, _, number = name.rpartition("-")
    return f"{base}-{int(number)}" if base and len(number) == 10 and number.isdigit() else name
