"""Metrics are declared once here; the hot path adds to plain integers in slots (rule E9).

`broker/measures.py` gathers them on a scrape; `exposition.py` renders what it gathered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric family: its Prometheus name, kind (counter, gauge or histogram), help, and label names in order."""

    name: str
    kind: str
    help: str
    labels: tuple[str, ...] = ()


class Sample(NamedTuple):
    """One line. A histogram's lines have a suffix; one with `_bucket` has the bucket's bound as its last label."""

    metric: Metric
    labels: tuple[str, ...]
    value: float
    suffix: str = ""


class Traffic:
    """Counts of one topic's traffic, as integers; the broker's totals are their sum."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "failed_fetches",
        "failed_produces",
        "fetches",
        "messages_in",
        "produces",
    )

    def __init__(self) -> None:
        self.messages_in = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.produces = 0
        self.fetches = 0
        self.failed_produces = 0
        self.failed_fetches = 0
