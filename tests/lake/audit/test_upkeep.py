"""Lakes of tables between loads: compacted, expired, inspected, and resumed after their state was lost."""

import json
import shutil

import polars as pl
import pytest

from ottla import lake
from ottla.lake.audit.upkeep import Lake
from ottla.lake.commands.load import command
from ottla.lake.notes.state import LakeState
from ottla.records.reader import Record

pytestmark = [pytest.mark.spark, pytest.mark.slow]

NEW_YEAR = 1_356_998_400_000


@pytest.fixture(params=["delta", "iceberg"])
def options(request, tmp_path):
    if request.param == "iceberg":
        return {"format": "iceberg", "catalog": f"sqlite:///{tmp_path}/catalog.db"}
    return {"format": "delta"}


def fill(topics, topic, *documents, key=b"k"):
    for document in documents:
        value = None if document is None else json.dumps(document).encode()
        topics.fill(topic, 0, [Record(0, NEW_YEAR, key, value)])


def rows(tmp_path, topic, options):
    if options["format"] == "delta":
        return pl.read_delta(str(tmp_path / "lake" / topic)).to_dicts()
    from pyiceberg.catalog import load_catalog

    uri, warehouse = options["catalog"], (tmp_path / "lake").as_uri()
    return (
        load_catalog("ottla", uri=uri, warehouse=warehouse).load_table(("ottla", topic)).scan().to_arrow().to_pylist()
    )


def test_small_files_are_joined_and_the_old_ones_go(load, topics, tmp_path, options, capsys):
    topic = topics.new()
    for number in range(4):
        fill(topics, topic, {"n": number})
        load(topic, json=True, **options)
    place = str(tmp_path / "lake")
    assert command(["compact", "--to", place]) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["topic", "files", "put", "together", "into"],
        [topic, "4", "1"],
    ]
    assert sorted(row["n"] for row in rows(tmp_path, topic, options)) == [0, 1, 2, 3]
    assert command(["expire", "--to", place, "--older-than", "0ms", "--format", "json"]) == 0
    assert len(json.loads(capsys.readouterr().out)[topic]) >= 4
    assert sorted(row["n"] for row in rows(tmp_path, topic, options)) == [0, 1, 2, 3]
    fill(topics, topic, {"n": 4})
    load(topic, json=True, **options)
    assert sorted(row["n"] for row in rows(tmp_path, topic, options)) == [0, 1, 2, 3, 4]


def test_files_of_a_round_at_work_are_kept_however_old_they_are(load, topics, tmp_path, options, monkeypatch):
    topic = topics.new()
    fill(topics, topic, {"n": 1})
    load(topic, json=True, **options)
    fill(topics, topic, {"n": 2})
    expire = ["expire", "--to", str(tmp_path / "lake"), "--older-than", "0ms"]
    publish = LakeState.write_publication

    def later(state, publication):
        assert command(expire) == 0
        publish(state, publication)
        assert command(expire) == 0

    with monkeypatch.context() as patch:
        patch.setattr(LakeState, "write_publication", later)
        load(topic, json=True, **options)
    assert sorted(row["n"] for row in rows(tmp_path, topic, options)) == [1, 2]


def test_files_are_kept_also_if_the_lake_was_given_by_other_paths(load, topics, tmp_path, options):
    topic = topics.new()
    (tmp_path / "other").symlink_to(tmp_path, target_is_directory=True)
    for number, place in enumerate((tmp_path, tmp_path / "other", tmp_path / "other" / ".." / tmp_path.name)):
        fill(topics, topic, {"n": number})
        load(topic, json=True, to=place / "lake", **options)
    for place in (tmp_path, tmp_path / "other"):
        assert command(["expire", "--to", str(place / "lake"), "--older-than", "0ms"]) == 0
    assert sorted(row["n"] for row in rows(tmp_path, topic, options)) == [0, 1, 2]


def test_a_round_that_its_table_refuses_is_not_published(load, topics, tmp_path, options):
    """A published round must be carried through: the lake could never go on."""
    topic = topics.new()
    fill(topics, topic, {"n": 2**53 + 1, "m": 1})
    load(topic, json=True, **options)
    fill(topics, topic, {"n": 1.5, "m": 2})
    for _ in range(2):
        with pytest.raises(lake.LakeRefused, match=f"{topic}-0 at offset 1: field n: double where the column holds"):
            load(topic, json=True, **options)
    load(topic, json=True, exclude_fields="n", **options)
    assert sorted((row["m"], row["n"]) for row in rows(tmp_path, topic, options)) == [(1, 2**53 + 1), (2, None)]


def test_small_files_of_odd_partitions_are_joined(load, topics, tmp_path, options):
    topic = topics.new()
    values = ["~", "a/b", "%41", "a=b", "#", "?", "ü", " x", "", None, "__HIVE_DEFAULT_PARTITION__"]
    for _ in range(2):
        fill(topics, topic, *({"c": value} for value in values))
        load(topic, json=True, partition_by="c", **options)
    assert command(["compact", "--to", str(tmp_path / "lake")]) == 0
    found = sorted(str(row["c"]) for row in rows(tmp_path, topic, options))
    told = [None if each in values[-3:] and options["format"] == "delta" else each for each in values]
    assert found == sorted(str(each) for each in told * 2)


def test_the_tables_say_what_is_loaded(load, topics, tmp_path, options, capsys):
    topic = topics.new()
    fill(topics, topic, {"n": 1}, {"n": 2})
    load(topic, json=True, **options)
    assert command(["where", "--to", str(tmp_path / "lake"), "--format", "json"]) == 0
    (said,) = json.loads(capsys.readouterr().out)
    assert said == {"topic": topic, "partition": 0, "in_table": 2, "in_state": 2, "rows": 2}


def test_a_lake_whose_state_was_lost_goes_on_from_its_tables(load, topics, tmp_path, options):
    topic = topics.new()
    fill(topics, topic, {"n": 1, "key": "a"}, {"n": 2})
    load(topic, json=True, **options)
    load(topic, json=True, **options)
    shutil.rmtree(tmp_path / "lake" / "_ottla")
    fill(topics, topic, {"n": 2.5, "key": "b"})
    loaded = load(topic, json=True, resume_from_table=True, **options)
    assert loaded.rows == 1
    found = sorted((row["offset"], row["n"], row["value_key"]) for row in rows(tmp_path, topic, options))
    assert found == [(0, 1.0, "a"), (1, 2.0, None), (2, 2.5, "b")]
    assert load(topic, json=True, resume_from_table=True, **options).rows == 0


def test_a_keyed_table_holds_the_last_row_of_each_key(load, topics, tmp_path, options):
    topic, dead = topics.new(), topics.new()
    fill(topics, topic, {"id": 1, "n": 1}, {"id": 2, "n": 1}, {"id": 1, "n": 2}, {"n": 7})
    loaded = load(topic, json=True, key="id", dead_letter=dead, **options)
    assert loaded.rows == 3
    assert sorted((row["id"], row["n"]) for row in rows(tmp_path, topic, options)) == [(1, 2), (2, 1)]
    assert [dict(letter.headers)["ottla.reason"] for letter in topics.read(dead)] == [b"no key: id"]
    fill(topics, topic, {"id": 2, "n": 2.5}, {"id": 3, "n": 1})
    load(topic, json=True, key="id", dead_letter=dead, **options)
    assert sorted((row["id"], row["n"]) for row in rows(tmp_path, topic, options)) == [(1, 2.0), (2, 2.5), (3, 1.0)]


def test_a_tombstone_deletes_the_row_of_its_records_key(load, topics, tmp_path, options):
    topic = topics.new()
    fill(topics, topic, {"n": 1}, key=b"a")
    fill(topics, topic, {"n": 2}, key=b"b")
    load(topic, json=True, key="key", **options)
    fill(topics, topic, None, key=b"a")
    load(topic, json=True, key="key", **options)
    assert [(row["key"], row["n"]) for row in rows(tmp_path, topic, options)] == [(b"b", 2)]


def test_change_events_of_debezium_become_the_rows_that_they_change(load, topics, tmp_path, options):
    topic = topics.new()

    def event(op, before, after):
        return {"payload": {"op": op, "before": before, "after": after, "ts_ms": 1}}

    one, two = {"id": 1, "name": "x"}, {"id": 1, "name": "y"}
    fill(topics, topic, event("c", None, one), event("c", None, {"id": 2, "name": "z"}))
    load(topic, json=True, key="id", debezium=True, **options)
    fill(topics, topic, event("u", one, two), event("d", {"id": 2, "name": "z"}, None), None)
    load(topic, json=True, key="id", debezium=True, **options)
    assert [(row["id"], row["name"]) for row in rows(tmp_path, topic, options)] == [(1, "y")]


def test_plain_files_say_what_they_hold_and_why_they_cannot_be_joined(load, topics, tmp_path, capsys):
    topic = topics.new()
    topics.count(topic, 0, 3)
    load(topic)
    (found,) = Lake(tmp_path / "lake").where()
    assert (found.in_table, found.in_state, found.rows) == (3, 3, 3)
    assert command(["compact", "--to", str(tmp_path / "lake")]) == 1
    assert "would see rows twice" in capsys.readouterr().err
    assert command(["where", "--to", str(tmp_path / "nowhere")]) == 1
    assert "there is no lake" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"key": "id"}, "`key` needs a table"),
        ({"format": "iceberg"}, "needs `catalog"),
        ({"format": "delta", "catalog": "sqlite:///x"}, "needs `catalog"),
        ({"format": "orc"}, "give one of parquet, delta, iceberg"),
        ({"format": "delta", "debezium": True}, "needs `json=True` and `key`"),
        ({"format": "iceberg", "catalog": "sqlite:///x", "time_zone": "Europe/Berlin"}, "in UTC"),
    ],
)
def test_what_a_format_has_not_is_refused(load, topics, more, why):
    with pytest.raises(lake.LakeRefused, match=why):
        load(topics.new(), **more)
