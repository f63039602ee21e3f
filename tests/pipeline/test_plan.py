"""A plan says what would change, and deletes nothing that it was not asked to."""

from __future__ import annotations

from ottla.formats.writer import WriterSchema
from ottla.pipeline.parts import PipelinePart
from ottla.pipeline.plan import Seen, TopicThere, plan

LINES = PipelinePart("topics", "lines", {"partitions": 3, "replication": 1, "config": {"retention.ms": "1000"}})
SINK = PipelinePart("connectors", "out", {"connector.class": "FileStreamSink", "topics": "lines", "file": "x"})
AVRO = WriterSchema("AVRO", '"string"')


def changes(seen: Seen, made: dict[str, list[str]] | None = None, *, prune: bool = False) -> list[str]:
    found = plan([LINES], {"lines-value": AVRO}, [SINK], seen, made or {}, prune=prune)
    return [" ".join(str(each).split()) for each in found.changes] + [f"no: {each}" for each in found.refusals] + [
        f"left: {each.name}" for each in found.left
    ]  # fmt: skip


def test_everything_is_made_where_nothing_is() -> None:
    assert changes(Seen()) == [
        "create topic lines (3 partitions, 1 replicas, retention.ms=1000)",
        "register schema lines-value (avro)",
        "create connector out (FileStreamSink)",
    ]


def test_nothing_changes_where_all_is_as_declared() -> None:
    there = Seen(
        {"lines": TopicThere(3, 1, {"retention.ms": "1000", "segment.ms": "5"})},
        {"lines-value": WriterSchema("AVRO", ' "string" ')},
        {"out": {**SINK.values, "name": "out"}},
    )
    assert changes(there) == []


def test_what_differs_is_changed_or_refused() -> None:
    there = Seen(
        {"lines": TopicThere(2, 3, {})},
        {"lines-value": WriterSchema("AVRO", '"int"')},
        {"out": {"name": "out", "file": "y"}},
    )
    assert changes(there) == [
        "grow topic lines (from 2 to 3 partitions; keys move to others)",
        "configure topic lines (retention.ms=1000, was the default)",
        "register schema lines-value (avro)",
        "update connector out (connector.class, file, topics)",
        "no: lines has 3 replicas, and 1 are declared: `ottla cluster reassign` changes that",
    ]


def test_partitions_cannot_go() -> None:
    (said,) = [each for each in changes(Seen({"lines": TopicThere(9, 1, {"retention.ms": "1000"})})) if "no:" in each]
    assert said == "no: lines has 9 partitions, and 3 are declared: none can go"


def test_what_an_earlier_run_made_goes_only_where_that_is_asked_for() -> None:
    there = Seen({"old": TopicThere(1, 1, {}), "foreign": TopicThere(1, 1, {})}, {}, {"gone": {}})
    made = {"topic": ["old", "lines"], "connector": ["gone"]}
    assert [each for each in changes(there, made) if "left" in each or "delete" in each] == ["left: gone", "left: old"]
    deleted = [each.split(" (")[0] for each in changes(there, made, prune=True) if "delete" in each]
    assert deleted == ["delete connector gone", "delete topic old"]
