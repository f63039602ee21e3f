"""A picture of a lake's completeness: one HTML page that needs nothing else, in light and in dark."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import sqrt

from ottla.lake.audit.grid import Cell, Grid, GridLine

_SHADES = 5
_PAGE = """
:root { color-scheme: light dark; --page: #ffffff; --ink: #1f2328; --quiet: #656d76; }
@media (prefers-color-scheme: dark) { :root { --page: #0f1419; --ink: #e6edf3; --quiet: #8d96a0; } }
body { margin: 2rem auto; max-width: 72rem; padding: 0 1rem; background: var(--page); color: var(--ink);
  font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .25rem; }
p { margin: .25rem 0 .75rem; color: var(--quiet); }
.wide { overflow-x: auto; }
"""
STYLE = """
:root { --none: #eef0f2; --s1: #c6e3f7; --s2: #8fc7ee; --s3: #569fd8; --s4: #2b74b3; --s5: #114a80;
  --late: #9a6700; --wrong: #cf222e; }
@media (prefers-color-scheme: dark) { :root { --none: #1c232b; --s1: #17324a; --s2: #1d4a70; --s3: #2a6a9e;
  --s4: #4a97d1; --s5: #8ccbf7; --late: #e3b341; --wrong: #ff7b72; } }
.grid { border-collapse: separate; border-spacing: 3px; }
.grid th { font-weight: normal; font-size: .75rem; color: var(--quiet); text-align: right; padding: 0 .4rem 0 0;
  white-space: nowrap; border: 0; }
.grid thead th { text-align: center; padding: 0; }
.grid td { position: relative; width: 1.35rem; min-width: 1.35rem; height: 1.35rem; border: 0; border-radius: 4px;
  padding: 0; box-sizing: border-box; text-align: center; font-size: .8rem; line-height: 1; }
.s0 { background: var(--none); } .s1 { background: var(--s1); } .s2 { background: var(--s2); }
.s3 { background: var(--s3); } .s4 { background: var(--s4); } .s5 { background: var(--s5); }
.open { outline: 2px dashed var(--quiet); outline-offset: -2px; }
.missing { outline: 3px solid var(--wrong); outline-offset: -3px; }
.late::before { content: ""; position: absolute; left: 0; bottom: 0; border: .3rem solid transparent;
  border-left-color: var(--late); border-bottom-color: var(--late); border-bottom-left-radius: 4px; }
.dead::after { content: ""; position: absolute; right: 2px; top: 2px; width: .4rem; height: .4rem;
  border-radius: 50%; background: var(--wrong); border: 1px solid var(--page); }
.legend { display: flex; flex-wrap: wrap; gap: .35rem 1.2rem; color: var(--quiet); align-items: center; }
.legend span { display: inline-flex; align-items: center; gap: .4rem; }
.legend i { position: relative; display: inline-block; width: 1.2rem; height: 1.2rem; border-radius: 4px; }
"""
"""The style of grids; a page around them has the colours --page and --quiet."""
_LEGEND = (
    ("s1", "few rows"),
    ("s5", "many rows, of the topic's most"),
    ("s2 open", "not complete yet"),
    ("s2 missing", "records that producers counted are missing"),
    ("s2 late", "late records came"),
    ("s2 dead", "dead letters"),
)


def page(place: str, made_at: str, grids: Sequence[Grid]) -> str:
    """The page of a lake."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Completeness of {escape(place)}</title><style>{_PAGE}{STYLE}</style></head><body>\n"
        f"<h1>Completeness of {escape(place)}</h1><p>As of {escape(made_at)}. A cell's title tells its numbers.</p>\n"
        f"{sections(grids)}</body></html>\n"
    )


def sections(grids: Sequence[Grid]) -> str:
    """The legend, and a section for each topic: to be put into a page that has STYLE."""
    legend = "".join(f'<span><i class="{kind}"></i>{escape(text)}</span>' for kind, text in _LEGEND)
    return f'<div class="legend">{legend}</div>\n' + "".join(_topic(grid) for grid in grids)


def _topic(grid: Grid) -> str:
    status = grid.status
    through = f"complete through {status.complete_through}" if status.complete_through else "not known to be complete"
    facts = [f"{status.rows:,} rows", through, f"{status.late:,} late", f"{status.dead:,} dead"]
    if status.filtered:
        facts.append(f"{status.filtered:,} filtered")
    if status.behind is not None:
        facts.append(f"{status.behind:,} offsets behind")
    if grid.left_out:
        facts.append(f"{grid.left_out:,} older lines are not shown")
    head = "".join(f'<th scope="col">{column}</th>' for column in grid.columns)
    body = "".join(_line(line, grid.most_rows) for line in grid.lines)
    table = f'<table class="grid"><thead><tr><th scope="col"></th>{head}</tr></thead><tbody>{body}</tbody></table>'
    shown = f'<div class="wide">{table}</div>' if grid.lines else ""
    return f"<section><h2>{escape(status.topic)}</h2><p>{escape('; '.join(facts))}</p>{shown}</section>\n"


def _line(line: GridLine, most: int) -> str:
    cells = "".join("<td></td>" if cell is None else _cell(cell, most) for cell in line.cells)
    return f'<tr><th scope="row">{escape(line.name)}</th>{cells}</tr>\n'


def _cell(cell: Cell, most: int) -> str:
    kinds = [f"s{shade(cell.rows, most)}"]
    facts = [f"{cell.rows:,} rows"]
    for kind, records in (("late", cell.late), ("dead", cell.dead), ("missing", cell.missing)):
        if records:
            kinds.append(kind)
            facts.append(f"{records:,} {kind}")
    if not cell.closed:
        kinds.append("open")
    facts.append("complete" if cell.closed and not cell.missing else "not complete")
    title = escape(f"{cell.name}: {', '.join(facts)}")
    return f'<td class="{" ".join(kinds)}" title="{title}" aria-label="{title}"></td>'


def shade(rows: int, most: int) -> int:
    """The shade of a cell: 0 without rows, up to 5; by the square root, so that small days are told apart."""
    if rows <= 0 or most <= 0:
        return 0
    return max(1, min(_SHADES, round(_SHADES * sqrt(rows / most))))
