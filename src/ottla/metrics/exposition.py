"""Renders samples as Prometheus text, format 0.0.4; server/http.py serves it."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from ottla.metrics.metric import Metric, Sample

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def render(samples: Iterable[Sample]) -> str:
    """All samples, grouped by family in the order of first appearance."""
    families: dict[Metric, list[Sample]] = {}
    for sample in samples:
        families.setdefault(sample.metric, []).append(sample)
    lines: list[str] = []
    for metric, members in families.items():
        lines.append(f"# HELP {metric.name} {_escape_help(metric.help)}")
        lines.append(f"# TYPE {metric.name} {metric.kind}")
        lines += [
            f"{metric.name}{sample.suffix}{_labels(metric, sample)} {_number(sample.value)}" for sample in members
        ]
    return "\n".join(lines) + "\n"


def _labels(metric: Metric, sample: Sample) -> str:
    names = (*metric.labels, "le") if sample.suffix == "_bucket" else metric.labels
    if not names:
        return ""
    pairs = ",".join(f'{name}="{_escape(value)}"' for name, value in zip(names, sample.labels, strict=True))
    return "{" + pairs + "}"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _escape_help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _number(value: float) -> str:
    if value == inf:
        return "+Inf"
    return str(int(value)) if value == int(value) else repr(value)
