"""`ottla connect test`: sample records through a connector's chain."""

import json

import pytest

from ottla.cli.main import main

SINK = {
    "name": "s", "connector.class": "FileStreamSink", "topics": "birds", "file": "/never/written",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "transforms": "drop,add", "predicates": "empty",
    "predicates.empty.type": "org.apache.kafka.connect.transforms.predicates.RecordIsTombstone",
    "transforms.drop.type": "org.apache.kafka.connect.transforms.Filter", "transforms.drop.predicate": "empty",
    "transforms.add.type": "org.apache.kafka.connect.transforms.InsertField$Value",
    "transforms.add.static.field": "seen", "transforms.add.static.value": "yes",
}  # fmt: skip


@pytest.fixture
def run(tmp_path, capsys):
    def call(config, *samples, json_format=False):
        (tmp_path / "connector.json").write_text(json.dumps(config))
        lines = "\n".join(each if isinstance(each, str) else json.dumps(each) for each in samples)
        (tmp_path / "samples").write_text(lines)
        words = ["connect", "test", str(tmp_path / "connector.json"), "--records", str(tmp_path / "samples")]
        status = main([*words, *(["--format", "json"] if json_format else [])])
        said = capsys.readouterr()
        return status, json.loads(said.out) if json_format else said.out, said.err

    return call


def test_a_sinks_records_are_shown_behind_each_step(run):
    status, out, _ = run(SINK, {"key": "k", "value": {"name": "wren"}})
    assert status == 0
    assert out.splitlines()[0] == "record 1: it passes"
    steps = [line.split("  ")[0] for line in out.splitlines()[2:]]
    assert steps == ["read", "converters", "transforms.drop (not applied)", "transforms.add"]
    assert out.splitlines()[-1].split() == ["transforms.add", "birds", '"k"', '{"name":"wren","seen":"yes"}']


def test_a_dropped_and_a_refused_record_are_told_apart(run):
    status, tracks, _ = run(SINK, {"key": "k"}, {"value": "{not json"}, {"value": [1]}, json_format=True)
    assert status == 1
    assert [track[-1]["step"] for track in tracks] == ["transforms.drop", "value.converter", "transforms.add"]
    assert tracks[0][-1]["fault"] is None
    assert "Converting byte[] to Kafka Connect data failed" in tracks[1][-1]["fault"]
    assert "Only Map objects supported" in tracks[2][-1]["fault"]


def test_a_sources_values_end_as_the_bytes_that_would_be_produced(run):
    config = {
        "name": "s", "connector.class": "FileStreamSource", "topic": "birds", "file": "/never/read",
        "transforms": "wrap", "transforms.wrap.type": "org.apache.kafka.connect.transforms.HoistField$Value",
        "transforms.wrap.field": "line", "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    }  # fmt: skip
    sample = {"value": "wren", "value_schema": {"type": "string"}}
    status, tracks, _ = run(config, sample, json_format=True)
    assert status == 0
    written = json.loads(tracks[0][-1]["value"])
    assert written["payload"] == {"line": "wren"}
    assert written["schema"]["fields"] == [{"type": "string", "optional": False, "field": "line"}]


@pytest.mark.parametrize(
    ("sample", "sentence"),
    [
        ('"wren"', 'sample 1 is no object: write {"value": "wren"}'),
        ('{"vlaue": 1}', "sample 1: no member 'vlaue' (did you mean value?)"),
        ('{"value_base64": "?"}', "sample 1: value_base64 is no Base64"),
        ('{"value": 1, "value_schema": {"type": "string"}}', "value_schema is for sources"),
        ("", "there is no sample record"),
    ],
)
def test_samples_that_are_none_are_refused_with_a_remedy(run, sample, sentence):
    status, _, err = run(SINK, sample)
    assert status == 1
    assert sentence in err


def test_a_wrong_configuration_is_refused_before_any_record(run):
    status, _, err = run(SINK | {"transforms.add.type": "InsertFeld$Value"}, {"value": 1})
    assert status == 1
    assert "did you mean" in err
