"""The state of a running pipeline: the file that its run keeps, and notes for the topics and parts of its picture."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ottla.pipeline.check import Flows
from ottla.pipeline.drawing import LiveNotes
from ottla.pipeline.flows import letters_of
from ottla.pipeline.parts import Pipeline


def run_status(state: Path) -> dict[str, Any]:
    """The status file of a run that is alive, else nothing."""
    path = state / "status.json"
    if not path.exists():
        return {}
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if not found.get("pid") or not Path(f"/proc/{found['pid']}").exists():
        return {}
    return found


def topics_of(pipeline: Pipeline, flows: Flows) -> list[str]:
    """The topics that are declared, read or written."""
    declared = {part.name for part in pipeline.of("topics")}
    return sorted(declared | {topic for flow in flows.values() for topic in (*flow.reads, *flow.writes)})


def groups_of(pipeline: Pipeline, flows: Flows) -> dict[str, str]:
    """The consumer group of each part that has one, by the part's label."""
    groups = {part.label: part.application_id for part in pipeline.of("streams")}
    return groups | {part.label: f"connect-{part.name}" for part in pipeline.of("connectors") if flows[part.at].reads}


def letters_by_part(pipeline: Pipeline) -> dict[str, str]:
    """The topic of dead letters of each part that has one, by the part's label."""
    found = {part.label: letters_of(part) for part in pipeline.parts}
    return {label: topics[0] for label, topics in found.items() if topics}


def notes(
    records: Mapping[str, int], rates: Mapping[str, float], lags: Mapping[str, int], states: Mapping[str, str]
) -> LiveNotes:
    """Notes by topic and by part. A topic without a rate was not looked at twice yet."""
    told = {
        topic: f"{count:,} records" + (f", {rates[topic]:,.0f}/s" if topic in rates else "")
        for topic, count in records.items()
    }
    return LiveNotes(told | {label: f"{lag:,} behind" for label, lag in lags.items()}, in_trouble(states.items()))


def in_trouble(states: Iterable[tuple[str, str]]) -> frozenset[str]:
    """The labels of the parts that have failed, or are begun again."""
    return frozenset(label for label, text in states if "failed" in text or "restarting" in text)
