"""Values of several schemas make the same rows and the same dead letters, however they fall into rounds."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import message_factory
from google.protobuf.json_format import ParseDict
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.lake.in_process import Load
from tests.lake.matrix_cases import avro_payload
from tests.lake.matrix_readers import READERS

from ottla.formats.protoc import compiled
from ottla.formats.wire import framed
from ottla.formats.writer import WriterSchema

Versions = list[tuple[str, dict[str, Any]]]
"""The schemas of a topic in order, each with a value."""
N = {"name": "n", "type": "int"}


def _avro(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "R", "fields": [N, *fields]})


def _field(kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": "e", "type": kind, **more}


def _inner(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "E", "fields": list(fields)}


def _list(kind: Any) -> dict[str, Any]:
    return {"type": "array", "items": kind}


def _map(kind: Any) -> dict[str, Any]:
    return {"type": "map", "values": kind}


def _proto(fields: str, inner: str = "") -> str:
    return f'syntax="proto3"; message M {{ int32 n=1; {fields} }} message E {{ {inner} }}'


def _json(**kinds: Any) -> str:
    return json.dumps({"type": "object", "properties": {"n": {"type": "integer"}, **kinds}})


X, Y = {"name": "x", "type": "int"}, {"name": "y", "type": "int", "default": 9}
MAYBE = ["null", "int"]
CASES: dict[str, tuple[str, Versions]] = {
    "Avro: a field with a default": (
        "avro",
        [(_avro(), {"n": 1}), (_avro(_field("int", default=7)), {"n": 2, "e": 5})],
    ),
    "Avro: a member with a default": (
        "avro",
        [
            (_avro(_field(_list(_inner(X)))), {"n": 1, "e": [{"x": 1}]}),
            (_avro(_field(_list(_inner(X, Y)))), {"n": 2, "e": [{"x": 1, "y": 2}]}),
        ],
    ),
    "Avro: a member of a map's values with a default": (
        "avro",
        [
            (_avro(_field(_map(_inner(X)))), {"n": 1, "e": {"a": {"x": 1}}}),
            (_avro(_field(_map(_inner(X, Y)))), {"n": 2, "e": {"a": {"x": 1, "y": 2}}}),
        ],
    ),
    "Avro: a record that was empty": (
        "avro",
        [(_avro(_field(_inner())), {"n": 1, "e": {}}), (_avro(_field(_inner(Y))), {"n": 2, "e": {"y": 5}})],
    ),
    "Avro: a list that could only hold null": (
        "avro",
        [(_avro(_field(_list("null"))), {"n": 1, "e": [None]}), (_avro(_field(_list(MAYBE))), {"n": 2, "e": [5]})],
    ),
    "Avro: a map that could only hold null": (
        "avro",
        [(_avro(_field(_map("null"))), {"n": 1, "e": {"a": None}}), (_avro(_field(_map(MAYBE))), {"n": 2, "e": {}})],
    ),
    "Protobuf: new fields": (
        "protobuf",
        [
            (_proto("E e=2;", "int32 x=1;"), {"n": 1, "e": {"x": 1}}),
            (_proto("E e=2; repeated string l=3;", "int32 x=1; int32 y=2;"), {"n": 2, "e": {"y": 3}, "l": ["a"]}),
        ],
    ),
    "Protobuf: a message that was empty": (
        "protobuf",
        [
            (_proto("E e=2; repeated E l=3;"), {"n": 1, "e": {}, "l": [{}]}),
            (_proto("E e=2; repeated E l=3;", "int32 x=1;"), {"n": 2, "e": {"x": 5}, "l": [{}]}),
        ],
    ),
    "Protobuf: a map of a message that was empty": (
        "protobuf",
        [
            (_proto("map<string, E> e=2;"), {"n": 1, "e": {"a": {}}}),
            (_proto("map<string, E> e=2;", "int32 x=1;"), {"n": 2, "e": {"a": {"x": 5}}}),
        ],
    ),
    "JSON Schema: an object that had no members": (
        "json",
        [
            (_json(e={"type": "object"}), {"n": 1, "e": {}}),
            (_json(e={"type": "object", "properties": {"x": {"type": "integer"}}}), {"n": 2, "e": {"x": 5}}),
        ],
    ),
    "JSON Schema: new fields": ("json", [(_json(), {"n": 1}), (_json(e={"type": "string"}), {"n": 2, "e": "a"})]),
}


def _payload(kind: str, schema: str, value: dict[str, Any]) -> bytes:
    if kind == "avro":
        return avro_payload(schema, value)
    if kind == "json":
        return json.dumps(value).encode()
    made = message_factory.GetMessageClass(compiled(WriterSchema("PROTOBUF", schema)).message_types_by_name["M"])
    return b"\0" + bytes(ParseDict(value, made()).SerializeToString())


def _loaded(folder: Path, name: str, order: Sequence[int], cuts: Sequence[int]) -> tuple[list[Any], list[str]]:
    """The rows and the dead letters of the case's values in an order of their versions, in rounds that end at cuts."""
    kind, versions = CASES[name]
    with pytest.MonkeyPatch.context() as monkeypatch:
        load = Load(monkeypatch, folder, "parquet", values=kind, registry="http://registry", dead_letter="bad")
        load.registry({number: WriterSchema(kind.upper(), text) for number, (text, _) in enumerate(versions)})
        values = [framed(at, [_payload(kind, *versions[at])]).to_pylist()[0] for at in order]
        for begin, end in itertools.pairwise((0, *cuts, len(values))):
            load.round(values[begin:end])
        (read, *_) = READERS["parquet"](load).values()
        rows = read().sort_by("offset").to_pylist()
        return [{name: each.get(name) for name in ("n", "e", "l")} for each in rows], load.letters


@pytest.mark.parametrize("name", CASES)
@given(st.lists(st.sampled_from([0, 1]), min_size=2, max_size=5), st.sets(st.integers(1, 4), min_size=1))
@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_cuts_of_values_of_two_schemas_make_one_lake(
    name: str, tmp_path_factory: pytest.TempPathFactory, order: list[int], cuts: set[int]
):
    folders = [tmp_path_factory.mktemp("cuts") for _ in range(2)]
    parted = sorted(at for at in cuts if at < len(order))
    assert _loaded(folders[0], name, order, ()) == _loaded(folders[1], name, order, parted)


def test_a_new_field_is_null_before_its_schema_and_has_its_default_after(tmp_path: Path):
    rows, letters = _loaded(tmp_path, "Avro: a field with a default", [0, 1, 0], ())
    assert ([each["e"] for each in rows], letters) == ([None, 5, 7], [])
