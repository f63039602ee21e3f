"""The bare server of `bench/bare.py` in ottla's place, in lines that have a goal.

Its ratio is about the best that any broker could reach in that line on this machine, as the client's work and the
kernel's stay the same.
"""

from __future__ import annotations

from dataclasses import replace

from bench.lines import Line, consume, latency, produce

RACED = {
    "produce-1MB-acks-1",
    "produce-1MB-acks-all",
    "consume",
    "consume-from-disk",
    "consume-eight-times",
    "latency-acks-1",
    "latency-awake",
    "end-to-end-2000",
}


def bare(line: Line) -> Line:
    """The same line, without a goal."""
    figures = tuple(
        replace(figure, title=f"bare server: {figure.title.strip()}", at_least=None, at_most=None)
        for figure in line.figures
    )
    return replace(
        line, name=f"bare-{line.name}", figures=figures, contestants=("bare", "kafka"), rounds=3, ceiling_of=line.name
    )


LINES = [bare(line) for line in (*produce.LINES, *consume.LINES, *latency.LINES) if line.name in RACED]
