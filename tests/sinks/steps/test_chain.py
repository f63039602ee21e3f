"""A connector's chain as steps of the lake: what is refused by name, and where JSON tells too little."""

import json
import pickle

import numpy as np
import pyarrow as pa
import pytest

from ottla.connect.errors import ConfigException
from ottla.connect.machine.connector_options import WorkerView
from ottla.connect.machine.validation import validated
from ottla.connect.transforms import TRANSFORMATIONS
from ottla.lake.columns.steps import RowSteps
from ottla.lake.columns.types import EMPTY, Misfit
from ottla.lake.columns.values import ValueKind
from ottla.rows.arrow import row_schema
from ottla.sinks.lake import steps_of
from ottla.sinks.steps.chain import OF_RECORDS, OF_VALUES, chain_steps
from ottla.stores import LakeRefused

COLUMNS = ("key", "value", "headers", "partition", "offset", "timestamp")


def chain(*transforms, **predicates):
    """Options of a connector: each transformation a map, its predicate by alias."""
    found = {"transforms": ",".join(f"t{at}" for at in range(len(transforms))), "predicates": ",".join(predicates)}
    for at, options in enumerate(transforms):
        found |= {f"transforms.t{at}.{name}": text for name, text in options.items()}
    for alias, options in predicates.items():
        found |= {f"predicates.{alias}.{name}": text for name, text in options.items()}
    return found


def steps(*transforms, kind="json", topic="t", **predicates):
    return chain_steps(chain(*transforms, **predicates)).reading(kind).of(topic)


def records(values, headers=None):
    count = len(values)
    names = headers or [()] * count
    listed = [[{"key": name, "value": None} for name in each] or None for each in names]
    columns = [[None] * count, values, listed, [0] * count, list(range(count)), [0] * count]
    schema = row_schema(COLUMNS)
    arrays = [pa.array(column, each.type) for column, each in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def read(*documents, chained):
    """The columns of documents behind a chain, by the reader of a load."""
    batch = records([None if each is None else json.dumps(each).encode() for each in documents])
    reader = ValueKind("json", steps=chained).reader("t")
    schema = reader.read(batch.column("value"), EMPTY).wanted
    return reader.read(batch.column("value"), schema), batch


MASK = {"type": "MaskField$Value", "fields": "card"}
TOMB = {"type": "RecordIsTombstone"}


def test_every_step_is_a_transformation_of_kafkas():
    assert OF_VALUES.keys() | OF_RECORDS.keys() <= TRANSFORMATIONS.keys()


@pytest.mark.parametrize(
    "transform",
    [
        {"type": "RegexRouter", "regex": "a", "replacement": "b"},
        {"type": "InsertHeader", "header": "h", "value.literal": "1"},
        {"type": "MaskField$Key", "fields": "a"},
        {"type": "io.debezium.transforms.ExtractNewRecordState"},
    ],
)
def test_a_transformation_without_an_arrow_form_is_refused_by_name_at_validation(transform):
    lake_sink = {"name": "c", "connector.class": "LakeSink", "to": "/x", "topics": "t", "json": "true"}
    (error,) = validated({**lake_sink, **chain(transform)}, WorkerView()).errors
    assert transform["type"].rpartition(".")[2] in error and "transforms.t0.type" in error
    assert "DropHeaders, Filter" not in error and "Cast$Value, DropHeaders, ExtractField$Value, Filter" in error
    assert not validated({**lake_sink, **chain(MASK)}, WorkerView()).errors


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        ({"values": "text"}, "values that become columns"),
        ({"json": "true", "rename": "a=b"}, "rename does not go together with transforms"),
        ({"json": "true", "debezium": "true"}, "debezium does not go together with transforms"),
        ({"json": "true", "resume.from.table": "true"}, "resume.from.table does not go together"),
        ({"json": "true", "transforms.t0.replace.null.with.default": "true"}, "a null stays null"),
        ({"json": "true", "transforms.t0.predicate": "no"}, "no such alias in predicates"),
    ],
)
def test_options_that_contradict_a_chain_are_refused(more, fault):
    with pytest.raises(ConfigException, match=fault):
        steps_of({**chain(MASK), **more})


def test_options_of_a_chain_without_one_are_refused():
    with pytest.raises(ConfigException, match=r"predicates\.p\.type has no effect without transforms"):
        steps_of({"predicates.p.type": "RecordIsTombstone"})
    assert steps_of({"json": "true"}) is None


def test_a_chain_is_the_same_under_other_aliases_and_shorter_names_and_in_another_process():
    long = "org.apache.kafka.connect.transforms.MaskField$Value"
    one, other = chain_steps(chain(MASK)), chain_steps({
        "transforms": "m", "transforms.m.type": long, "transforms.m.fields": "card",
    })  # fmt: skip
    assert one.text == other.text
    ready = one.reading("json").of("t")
    again = pickle.loads(pickle.dumps(ready))
    assert again == ready and again.columns(pa.schema([("card", pa.string())])).names == ["card"]
    assert RowSteps(one.text).text == one.text


def test_values_without_columns_can_be_filtered_and_lose_headers_alone():
    drop = {"type": "DropHeaders", "headers": "a"}
    found = steps(drop, {"type": "Filter", "predicate": "p"}, kind="bytes", p=TOMB)
    stepped = found.apply(None, records([b"x", None, b"y"], [["a", "b"], [], ["a"]]))
    assert stepped.values is None and stepped.filtered.tolist() == [False, True, False]
    assert stepped.headers.to_pylist() == [[{"key": "b", "value": None}], None, None]
    with pytest.raises(LakeRefused, match=r"MaskField\$Value changes fields, and values of text have none"):
        steps(MASK, kind="text")


def test_a_topics_name_leaves_steps_out_once_and_for_all():
    given = {**MASK, "predicate": "p"}
    matching = {"type": "TopicNameMatches", "pattern": "t[0-9]"}
    schema = pa.schema([("card", pa.string()), ("n", pa.int64())])
    hoist = {"type": "HoistField$Value", "field": "all", "predicate": "p", "negate": "true"}
    assert steps(given, hoist, topic="t1", p=matching).columns(schema).names == ["card", "n"]
    assert steps(given, hoist, topic="other", p=matching).columns(schema).names == ["all"]


def test_a_step_for_some_records_makes_columns_for_all_of_them():
    rename = {"type": "ReplaceField$Value", "renames": "n:number", "predicate": "p"}
    found = steps(rename, p={"type": "HasHeaderKey", "name": "v2"})
    batch = records([b"{}"] * 3, [["v2"], [], ["x", "v2"]])
    stepped = found.apply(pa.table({"n": [1, 2, 3]}), batch)
    assert stepped.values.to_pylist() == [
        {"n": None, "number": 1}, {"n": 2, "number": None}, {"n": None, "number": 3},
    ]  # fmt: skip


def test_a_step_for_some_records_that_would_give_a_column_two_types_is_refused():
    cast = {"type": "Cast$Value", "spec": "n:string", "predicate": "p"}
    with pytest.raises(Misfit, match=r"Cast\$Value is done to some records alone, and n would be int64"):
        steps(cast, p={"type": "HasHeaderKey", "name": "h"}).columns(pa.schema([("n", pa.int64())]))
    for_all_with_values = steps({**cast, "negate": "true"}, p=TOMB)
    assert for_all_with_values.columns(pa.schema([("n", pa.int64())])).field("n").type == pa.string()


def test_numbers_of_json_whose_text_would_depend_on_other_records_are_refused():
    to_text = steps({"type": "Cast$Value", "spec": "n:string"})
    block, _ = read({"n": 1}, {"n": 1.5}, {"n": 2}, chained=to_text)
    assert [row for row, _ in block.faults] == [1] and "does not tell 1 from 1.0" in block.faults[0][1]
    assert to_text.columns(block.table.schema).field("n").type == pa.string()
    with pytest.raises(Misfit, match="give a whole number"):
        steps({"type": "MaskField$Value", "fields": "n", "replacement": "0.5"}).columns(
            pa.schema([("n", pa.float64())])
        )


def test_numbers_of_json_are_cut_as_by_kafka_where_all_are_whole():
    narrow = steps({"type": "Cast$Value", "spec": "n:int8"})
    block, batch = read({"n": 300}, {"n": 1.5}, chained=narrow)
    assert [row for row, _ in block.faults] == [1] and "cast to int64 or float64" in block.faults[0][1]
    stepped = narrow.apply(pa.table({"n": [300]}), batch.slice(0, 1))
    assert not stepped.faults and stepped.values.column("n").to_pylist() == [44]
    wide = steps({"type": "Cast$Value", "spec": "n:int64"})
    stepped = wide.apply(pa.table({"n": [1.5, 1e300, -128.5, None]}), records([b""] * 4))
    assert [row for row, _ in stepped.faults] == [1] and "out of the range of int64" in stepped.faults[0][1]
    assert stepped.values.column("n").to_pylist()[::2] == [1, -128]


def test_fields_that_would_meet_are_refused_with_the_record_that_brings_them():
    rename = steps({"type": "ReplaceField$Value", "renames": "a:b"})
    block, _ = read({"a": 1}, {"a": 2, "b": 3}, chained=rename)
    assert [row for row, _ in block.faults] == [1] and "makes two fields b" in block.faults[0][1]
    block, _ = read({"a": 1}, {"a": 2, "B": 3}, chained=rename)
    assert [row for row, _ in block.faults] == [1]


def test_what_is_left_must_be_objects():
    taken = steps({"type": "ExtractField$Value", "field": "n"})
    block, _ = read({"n": 5}, {"m": {"x": 1}}, chained=taken)
    assert [row for row, _ in block.faults] == [0] and "only objects can be rows" in block.faults[0][1]
    wrapped = steps({"type": "ExtractField$Value", "field": "n"}, {"type": "HoistField$Value", "field": "it"})
    block, batch = read({"n": 5}, None, chained=wrapped)
    stepped = wrapped.apply(block.table, batch)
    assert stepped.values.to_pylist() == [{"it": 5}, {"it": None}]
    assert not stepped.tombstones.any()


def test_a_record_that_was_dropped_or_refused_is_not_looked_at_again():
    drop = {"type": "Filter", "predicate": "p"}
    found = steps(drop, MASK, {"type": "Cast$Value", "spec": "n:int8"}, p=TOMB)
    stepped = found.apply(pa.table({"n": ["x", "1", None]}), records([b"", b"", None]))
    assert [row for row, _ in stepped.faults] == [0] and stepped.filtered.tolist() == [False, False, True]
    assert np.flatnonzero(stepped.tombstones).tolist() == [2]


def test_a_chain_that_contradicts_itself_is_refused_before_anything_is_read():
    cast, rename = {"type": "Cast$Value", "spec": "s:int16"}, {"type": "ReplaceField$Value", "renames": "n:s"}
    other = {"type": "Cast$Value", "spec": "n:int8"}
    with pytest.raises(LakeRefused, match="ReplaceField makes two fields s"):
        steps(cast, other, rename)
