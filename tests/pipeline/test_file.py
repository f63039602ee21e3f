"""A pipeline file is read with the place of every value, and all that is wrong in it is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.pipeline.check import check
from ottla.pipeline.document import read_documents
from ottla.pipeline.drawing import LiveNotes, edges, svg, text
from ottla.pipeline.editors import json_schema
from ottla.pipeline.parts import pipeline_of

APP = """
from ottla.streams import TEXT, StreamsBuilder

def topology():
    builder = StreamsBuilder(value=TEXT)
    builder.stream("lines").map_values(str.upper).to("shouted")
    return builder.build()
"""
WHOLE = """
pipeline: shop
cluster: {bootstrap: "localhost:9092"}
topics:
  lines: {partitions: 2, value: text, config: {retention.ms: 60000}}
  shouted:
streams:
  shout: {app: app.py}
connectors:
  out: {connector.class: FileStreamSink, topics: shouted, file: out.txt}
lakes:
  all: {topics: [lines, shouted], to: lake, every: 1m}
alerts:
  slow: {group: shout, lag: 100}
"""


def found(folder: Path, *texts: str, environment: dict[str, str] | None = None) -> list[str]:
    """The findings of files laid over each other, without their folder."""
    return [str(each).replace(f"{folder}/", "") for each in read(folder, *texts, environment=environment)[2]]


def read(folder: Path, *texts: str, environment: dict[str, str] | None = None):
    (folder / "app.py").write_text(APP, encoding="utf-8")
    paths = []
    for number, content in enumerate(texts):
        paths.append(folder / f"{number}.yaml")
        paths[-1].write_text(content, encoding="utf-8")
    document = read_documents(paths, environment or {})
    pipeline = pipeline_of(document, folder, "shop")
    flows = check(pipeline, document)
    return pipeline, flows, document.findings


def test_nothing_is_found_in_a_file_that_can_work(tmp_path: Path) -> None:
    assert found(tmp_path, WHOLE) == []


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("topics:\n", "topcs:\n", "0.yaml:4:1: a pipeline has no section topcs (did you mean topics?)"),
        ("partitions: 2", "partitons: 2", "0.yaml:5:11: topics has no option partitons; did you mean partitions?"),
        ("partitions: 2", "partitions: two", "0.yaml:5:11: partitions is a number above 0, not 'two'"),
        ("retention.ms", "retntion.ms", "0.yaml:5:48: topics have no configuration retntion.ms (did you mean"),
        ("retention.ms: 60000", "retention.ms: soon", "0.yaml:5:48: Invalid value soon for configuration retention.ms"),
        ("topics: shouted", "topics: shoutd", "0.yaml:10:3: shoutd is read here, and no part writes it"),
        ("file: out.txt", "fil: out.txt", "0.yaml:10:3: warning: "),
        ("FileStreamSink", "FileStreamSin", "0.yaml:10:9: "),
        ("to: lake, every: 1m", "every: 1m", "0.yaml:12:3: lakes: all needs to: the lake's path or URL"),
        ("every: 1m", "every: soon", "0.yaml:12:45: --every: "),
        ("every: 1m", "values: json", "0.yaml:12:3: lines is read as json here, and its values are declared as text"),
        ("app: app.py", "app: none.py", "0.yaml:8:11: none.py cannot be used: "),
        ("app: app.py", "app: app.py:topologie", "app.py:topologie cannot be used: app.py has no topologie"),
        ("group: shout, lag: 100", "group: shout", "0.yaml:14:3: alerts: slow watches a group with its lag"),
        ("  shouted:\n", "  shouted:\n  lines: {}\n", "0.yaml:7:3: lines is here a second time"),
        ("cluster: {boot", "cluster: {port: 1} #", "0.yaml:3:1: cluster: give bootstrap, or start: true"),
        ("value: text", "value: orders.avsc", "0.yaml:5:26: [Errno 2] No such file or directory"),
        ("value: text", "value: txt", "0.yaml:5:26: value txt: give text, bytes, json, or a file with a schema"),
        ("to: lake", "to: '${env:NOWHERE}'", "the environment has no NOWHERE"),
        ("pipeline: shop", "pipeline: [", "this is no YAML"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_found_with_its_place(tmp_path: Path, before: str, after: str, said: str) -> None:
    assert before in WHOLE
    findings = found(tmp_path, WHOLE.replace(before, after))
    assert any(said in each for each in findings), findings


BATCH = """
pipeline: nightly
cluster: {bootstrap: "localhost:9092"}
programs:
  make: {run: python make.py --all, writes: made}
  sum: {run: python sum.py, reads: made, after: [make, files]}
lakes:
  files: {topics: made, to: lake, after: make}
"""


def test_a_file_of_programs_and_loads_that_wait_for_each_other_can_work(tmp_path: Path) -> None:
    pipeline, flows, findings = read(tmp_path, BATCH)
    assert not findings
    assert [part.after for part in pipeline.parts] == [(), ("make", "files"), ("make",)]
    assert flows["programs", "make"].writes == flows["lakes", "files"].reads == ("made",)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("after: make}", "after: mak}", "no program, and no load without every, has the name mak (did you mean make?)"),
        ("to: lake, after", "to: lake, every: 1m, after", "no load without every, has the name files"),
        ("writes: made}", "writes: made, after: sum}", "it would wait for itself: "),
        ("run: python make.py --all", "run: pythn make.py", "there is no program pythn (did you mean python?)"),
        ("run: python make.py --all", "run: python 'make.py", "run is no command line: No closing quotation"),
        ("run: python make.py --all, ", "", "programs: make needs run"),
        ("reads: made", "reads: mode", "mode is read here, and no part writes it"),
    ],
)  # fmt: skip
def test_programs_that_cannot_run_and_parts_that_cannot_begin_are_found(
    tmp_path: Path, before: str, after: str, said: str
) -> None:
    assert before in BATCH
    findings = found(tmp_path, BATCH.replace(before, after, 1))
    assert any(said in each for each in findings), findings


def test_records_that_would_go_round_are_found(tmp_path: Path) -> None:
    round_trip = WHOLE.replace("topics: shouted, file: out.txt", "topics: shouted, file: x, "
                               "errors.deadletterqueue.topic.name: lines")  # fmt: skip
    findings = found(tmp_path, round_trip)
    assert [each for each in findings if "records would go round: out -> shout -> out" in each]


def test_an_overlay_replaces_adds_and_removes(tmp_path: Path) -> None:
    over = "cluster: {bootstrap: '${env:BROKERS}'}\ntopics: {lines: {partitions: 6}}\nalerts:\n"
    pipeline, _, findings = read(tmp_path, WHOLE, over, environment={"BROKERS": "far:9092"})
    assert findings == []
    assert pipeline.cluster["bootstrap"] == "far:9092"
    assert pipeline.of("alerts") == []
    lines = pipeline.of("topics")[0]
    assert (lines.values["partitions"], lines.values["value"]) == (6, "text")


def test_secrets_of_connectors_are_left_to_the_worker(tmp_path: Path) -> None:
    pipeline, _, _ = read(tmp_path, WHOLE.replace("file: out.txt", "file: '${env:SECRET}'"))
    assert pipeline.of("connectors")[0].values["file"] == "${env:SECRET}"


def test_a_picture_shows_every_part_and_topic_once(tmp_path: Path) -> None:
    pipeline, flows, _ = read(tmp_path, WHOLE)
    assert edges(pipeline, flows) == [
        ("shouted", "connector out"), ("lines", "stream shout"), ("stream shout", "shouted"),
        ("lines", "lake all"), ("shouted", "lake all"), ("lake all", "lake"),
    ]  # fmt: skip
    assert "stream shout  ->  shouted  (7 records)\n" in text(pipeline, flows, LiveNotes({"shouted": "7 records"}))
    drawn = svg(pipeline, flows, LiveNotes({"shouted": "7 <records>"}, frozenset({"stream shout"})))
    for box in ("lines", "shouted", "stream shout", "connector out", "lake all"):
        assert drawn.count(f">{box}</text>") == 1
    assert "7 &lt;records&gt;" in drawn
    assert drawn.count('class="bad"') == 1


def test_the_schema_for_editors_takes_the_file_and_refuses_an_unknown_option(tmp_path: Path) -> None:
    import jsonschema
    import yaml

    schema = json_schema()
    jsonschema.validate(yaml.safe_load(WHOLE), schema)
    with pytest.raises(jsonschema.ValidationError, match="partitons"):
        jsonschema.validate(yaml.safe_load(WHOLE.replace("partitions", "partitons")), schema)
