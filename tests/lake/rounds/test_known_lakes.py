"""A lake that stands keeps its options, and a load that contradicts them is refused with both in the sentence."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from ottla import lake
from ottla.lake.columns.layout import Layout
from ottla.lake.commands.load_arguments import with_times_joined
from ottla.lake.notes.plans import Commit
from ottla.lake.notes.state import LakeState
from ottla.lake.options import OPTIONS, LoadOptions, checked
from ottla.lake.rounds.known import changes, continued, known_options, to_note
from ottla.lake.rounds.settings import load_settings
from ottla.stores import LakeRefused, open_store

LAKES = [
    {"json": True, "event_time": "time", "partition_by": "hour,carrier", "time_zone": "Europe/Berlin"},
    {"json": True, "debezium": True, "key": ["id", "line"], "format": "delta"},
    {"json": True, "flatten": True, "flatten_separator": ".", "where": " n > 1 "},
    {"values": "text", "partition_by": "none"},
    {"format": "iceberg", "catalog": "sqlite:///catalog.db", "namespace": "shop", "partition_by": "none"},
    {"values": "avro", "registry": "http://localhost:8081", "dead_letter": "bad", "target_size": "1g"},
    {"json": True, "schema": '{"type":"object"}', "numbers_as_text": True, "read_committed": False},
    {},
]


def settled(options):
    return load_settings(["t"], "lake", options)


@pytest.mark.parametrize("options", LAKES)
def test_a_known_lake_needs_no_option_twice(options, tmp_path, monkeypatch):
    first, notes = settled(options), json.loads(json.dumps(to_note(checked(options))))
    again = continued({}, first.shape, notes, first.url)
    assert settled(again) == first
    assert settled(continued(checked(options), first.shape, notes, "x")) == first
    monkeypatch.chdir(tmp_path)
    assert settled(continued({}, first.shape, notes, "x")).shape == first.shape


@pytest.mark.parametrize(
    ("options", "other", "sentence"),
    [
        (LAKES[0], {"event_time": "at"}, "made with --event-time time; this load comes with --event-time at"),
        (LAKES[0], {"event_time": ""}, "with --event-time time; this load comes without --event-time"),
        (
            LAKES[0],
            {"partition_by": "day"},
            "with --partition-by hour,carrier; this load comes with --partition-by day",
        ),
        (LAKES[0], {"values": "text"}, "with --values json; this load comes with --values text"),
        (LAKES[0], {"json": False}, "with --values json; this load comes with --values binary"),
        (LAKES[0], {"debezium": True}, "without --debezium; this load comes with --debezium,"),
        (LAKES[1], {"key": "id"}, "with --key id,line; this load comes with --key id,"),
        (LAKES[1], {"format": "iceberg"}, "with --format delta; this load comes with --format iceberg"),
        (LAKES[2], {"flatten": False}, "with --flatten; this load comes without --flatten"),
        (LAKES[2], {"where": "n > 2"}, "with --where n > 1; this load comes with --where n > 2"),
        (LAKES[3], {"json": True}, "with --values text; this load comes with --values json"),
        (LAKES[4], {"catalog": "sqlite:///other.db"}, "catalog.db; this load comes with --catalog sqlite:////"),
        (LAKES[4], {"namespace": "b"}, "with --namespace shop; this load comes with --namespace b"),
        ({}, {"time_zone": "Asia/Tokyo"}, "with --time-zone UTC; this load comes with --time-zone Asia/Tokyo"),
    ],
)
def test_a_different_value_is_refused_with_both_in_the_sentence(options, other, sentence):
    first = settled(options)
    with pytest.raises(LakeRefused) as refused:
        continued(checked(other), first.shape, to_note(checked(options)), first.url)
    assert sentence in str(refused.value) and "Leave the option out" in str(refused.value)


def test_the_options_of_a_first_load_that_loaded_nothing_may_be_corrected(tmp_path):
    wrong = {
        "json": True,
        "event_time": "tme",
        "format": "iceberg",
        "catalog": "sqlite:///c.db",
        "partition_by": "none",
    }
    first = settled(wrong)
    with LakeState(open_store((tmp_path / "lake").as_uri())) as state:
        name = state.settle(first.shape)
        again = continued({"event_time": "time"}, state.shape(), {}, "x", empty=state.is_empty())
        assert settled(again).shape == replace(first.shape, layout=Layout((), "UTC", "time"))
        other = settled(
            continued({"format": "delta", "values": "text", "event_time": ""}, state.shape(), {}, "x", empty=True)
        )
        state.shape_anew(other.shape)
        assert state.settle(other.shape) == name and state.shape() == other.shape
        state.adopt(Commit(0))
        state.shape_anew(first.shape)
        assert not state.is_empty() and state.shape() == other.shape


def test_a_refusal_shows_no_password_of_a_catalog():
    first = settled({"format": "iceberg", "catalog": "postgresql://me:sesame@host/db", "partition_by": "none"})
    with pytest.raises(LakeRefused) as refused:
        continued({"catalog": "postgresql://me:other@host/db"}, first.shape, {}, first.url)
    assert "postgresql://me:…@host/db" in str(refused.value)
    assert "sesame" not in str(refused.value) and "other@" not in str(refused.value)


def test_options_that_may_change_take_the_new_value_and_say_so():
    before = to_note(checked({"registry": "http://a:1", "dead_letter": "bad", "compression": "lz4"}))
    shape = settled({"values": "avro", "registry": "http://a:1"}).shape
    again = continued(checked({"registry": "http://b:1", "dead_letter": "", "compression": "lz4"}), shape, before, "x")
    after = to_note(again)
    assert after == {"registry": "http://b:1", "compression": "lz4"}
    assert changes(before, after) == [
        "from now on loads go with --registry http://b:1, until now with --registry http://a:1",
        "from now on loads go without --dead-letter, until now with --dead-letter bad",
    ]
    assert continued({"schema": "{}"}, shape, before, "x").get("registry") is None


def test_a_relative_catalog_is_the_same_file_from_every_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    catalog = settled(LAKES[4]).shape.catalog
    assert catalog == f"sqlite:///{tmp_path}/catalog.db"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"bootstrap_servers": "h:1"}, "no option bootstrap_servers; did you mean bootstrap?"),
        ({"dead_leter": "x"}, "no option dead_leter; did you mean dead_letter?"),
        ({"partitionby": "day"}, "did you mean partition_by?"),
        ({"acept_loss": True}, "did you mean accept_loss?"),
        ({"continous": True}, "did you mean continuous?"),
        ({"xyzzy": True}, "no option xyzzy"),
        ({"json": "yes"}, "json is True or False, not 'yes'"),
        ({"max_offsets": "many"}, "max_offsets is a number above 0, not 'many'"),
        ({"max_offsets": True}, "max_offsets is a number above 0, not True"),
        ({"key": 5}, "key is names, commas between or as a list, not 5"),
        ({"catalog": b"x"}, "catalog is text"),
    ],
)
def test_an_option_of_another_name_or_type_is_refused_before_anything_is_done(options, sentence, tmp_path):
    with pytest.raises(TypeError) as refused:
        lake.load(["t"], to=tmp_path / "lake", **options)
    assert sentence in str(refused.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "options",
    [
        {"compression": "zst"},
        {"format": "detla"},
        {"values": "jsn"},
        {"max_offsets": 0},
        {"metrics_port": 70_000},
        {"target_size": "0"},
        {"target_size": -5},
        {"key": ["a,b"]},
        {"flatten_separator": "."},
        {"message": "M"},
        {"every": "5"},
        {"every": "0s"},
        {"every": "1m", "continuous": True},
    ],
)
def test_a_value_that_is_not_allowed_is_refused(options, tmp_path):
    with pytest.raises(LakeRefused):
        lake.load(["t"], to=tmp_path / "lake", bootstrap="127.0.0.1:1", **options)
    assert not list(tmp_path.iterdir())


def test_the_types_of_options_and_their_declarations_have_the_same_names():
    assert {option.name for option in OPTIONS} == set(LoadOptions.__annotations__)
    assert all(f"    {option.name}: {option.doc.split()[0]}" in (lake.load.__doc__ or "") for option in OPTIONS)


def test_names_may_be_a_list_and_one_topic_a_text():
    assert settled({"json": True, "key": ["a", "b"], "format": "delta"}).shape.key == ("a", "b")
    assert settled({"json": True, "rename": "a=b"}).values.renames.all() == settled({"json": True, "rename": ["a=b"]}).values.renames.all()  # fmt: skip  # noqa: E501


def test_a_time_ago_may_follow_its_option():
    assert with_times_joined(["t", "--from", "-1h", "--to", "x"]) == ["t", "--from=-1h", "--to", "x"]
    assert with_times_joined(["--from", "--to", "-1"]) == ["--from", "--to", "-1"]


def test_the_command_names_the_nearest_option(tmp_path):
    command = [sys.executable, "-m", "ottla.cli.main", "lake", "load", "t", "--to", str(tmp_path / "l")]
    for wrong, hint in (("--dead-leter=x", "did you mean --dead-letter?"), ("--xyzzy", "--xyzzy")):
        done = subprocess.run([*command, wrong], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 2 and hint in done.stderr and len(done.stderr.splitlines()) < 4


def test_known_options_name_every_option_that_is_for_good():
    kept = {option.name for option in OPTIONS if option.kept.name == "FOR_GOOD"} - {"json"}
    assert set(known_options(settled({}).shape)) == kept
