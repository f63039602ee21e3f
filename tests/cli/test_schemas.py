"""`ottla produce --schema` writes values by a registry's schemas, and `ottla consume --schema` shows them in JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Ottla
from tests.registry_server import RegistryServer

AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "open", "type": "boolean", "default": True},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "tags", "type": {"type": "map", "values": "int"}, "default": {}},
        {"name": "either", "type": ["null", "long", "string"], "default": None},
    ],
}
ROW = {
    "id": 9007199254740993,
    "at": "2026-11-28T10:00:00Z",
    "price": "12.50",
    "open": False,
    "note": "é",
    "tags": {"a": 1},
    "either": "x",
}


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    with RegistryServer() as found:
        yield found


def shown(ottla: Ottla, topic: str, registry: RegistryServer) -> list[object]:
    done = ottla("consume", topic, "--from-beginning", "-e", "--schema", "--registry", registry.url)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_json_lines_and_csv_are_written_by_a_schema_and_shown_again(
    ottla: Ottla, name: str, tmp_path: Path, registry: RegistryServer
) -> None:
    schema, lines, rows = tmp_path / "order.avsc", tmp_path / "a.jsonl", tmp_path / "a.csv"
    schema.write_text(json.dumps(AVRO))
    lines.write_text(json.dumps(ROW) + "\n")
    rows.write_text("id,at,price,open,note,either\n7,2026-11-28T10:00:00+01:00,3,TRUE,,8\n")
    done = ottla("produce", name, str(lines), "--schema", str(schema), "--registry", registry.url, "-k", "id")
    assert done.returncode == 0, done.stderr
    done = ottla("produce", name, str(rows), "--schema", "latest", "--registry", registry.url)
    assert done.returncode == 0, done.stderr
    assert list(registry.subjects) == [f"{name}-value"]
    second = {
        "id": 7,
        "at": "2026-11-28T09:00:00Z",
        "price": "3.00",
        "open": True,
        "note": "",
        "tags": {},
        "either": "8",
    }
    assert shown(ottla, name, registry) == [ROW, second]
    raw = ottla("consume", name, "--from-beginning", "-n", "1", "--format", "json").stdout
    assert "value_base64" in raw or "\\u0000" in raw


@pytest.mark.parametrize("kind", ["PROTOBUF", "JSON"])
def test_protobuf_and_json_schema_work_too(
    ottla: Ottla, name: str, tmp_path: Path, registry: RegistryServer, kind: str
) -> None:
    texts = {
        "PROTOBUF": 'syntax = "proto3"; message Order { int64 id = 1; string note = 2; repeated int32 n = 3; }',
        "JSON": json.dumps(
            {
                "type": "object",
                "properties": {
                    "id": {"type": "integer", "maximum": 100},
                    "note": {"type": "string"},
                    "n": {"type": "array", "items": {"type": "integer"}},
                },
            }
        ),
    }
    number = registry.register("orders", texts[kind], kind)
    path = tmp_path / "a.jsonl"
    row = {"id": 7, "note": "x", "n": [1, 2]}
    path.write_text(json.dumps(row) + "\n")
    for wish in ("orders", str(number)):
        done = ottla("produce", name, str(path), "--schema", wish, "--registry", registry.url)
        assert done.returncode == 0, done.stderr
    assert shown(ottla, name, registry) == [row, row]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"id": "7"}, "value.id is a whole number in the schema, not '7'"),
        ({"id": 1 << 63}, "value.id is a whole number of 64 bits"),
        ({"id": 7.5}, "value.id is a whole number"),
        ({"id": None}, "a row does not fit the Avro schema: field id is null"),
        ({"nite": "x"}, "value.nite is not in the schema: did you mean note?"),
        ({"at": "2026-11-28T10:00:00"}, "value.at is a time with its zone"),
        ({"at": 5}, "value.at is a time by ISO 8601"),
        ({"price": "1.234"}, "value.price is a decimal of 9 digits, 2 behind the point"),
        ({"tags": {"a": "1"}}, "value.tags.a is a whole number"),
        ({"either": 1.5}, "value.either is one of long, string"),
    ],
)
def test_a_value_that_the_schema_has_no_place_for_is_refused(
    ottla: Ottla, name: str, tmp_path: Path, registry: RegistryServer, change: dict[str, object], why: str
) -> None:
    registry.register(f"{name}-value", AVRO)
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(ROW | change) + "\n")
    done = ottla("produce", name, str(path), "--schema", "latest", "--registry", registry.url)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert f"a.jsonl, line 1: {why}" in done.stderr
    assert f"nothing is written to {name}" in done.stderr


def test_a_json_schema_refuses_what_it_forbids(
    ottla: Ottla, name: str, tmp_path: Path, registry: RegistryServer
) -> None:
    number = registry.register("t", {"type": "object", "properties": {"id": {"type": "integer", "maximum": 5}}}, "JSON")
    path = tmp_path / "a.csv"
    path.write_text("id\n5\n6\n")
    done = ottla("produce", name, str(path), "--schema", str(number), "--registry", registry.url)
    assert done.returncode == 1
    assert "line 3" in done.stderr
    assert "the record before it is written" in done.stderr
    assert shown(ottla, name, registry) == [{"id": 5}]


def test_a_schema_that_is_not_there_is_one_sentence(
    ottla: Ottla, name: str, tmp_path: Path, registry: RegistryServer
) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id\n5\n")
    for wish, code, why in [
        ("latest", 1, f"subject {name}-value"),
        ("77", 1, "--schema 77: "),
        (str(tmp_path / "no.avsc"), 1, "No such file"),
    ]:
        done = ottla("produce", name, str(path), "--schema", wish, "--registry", registry.url)
        assert (done.returncode, why in done.stderr) == (code, True), done.stderr
    done = ottla("produce", name, str(path), "--schema", "latest", "--registry", "localhost:1")
    assert (done.returncode, "is not the URL of a registry" in done.stderr) == (2, True), done.stderr
    done = ottla("produce", name, "word", "--schema", "latest")
    assert (done.returncode, "VALUE goes without --schema" in done.stderr) == (2, True), done.stderr


def test_values_without_a_schema_are_refused_with_their_place(
    ottla: Ottla, name: str, registry: RegistryServer
) -> None:
    ottla("produce", name, "plain text")
    done = ottla("consume", name, "--from-beginning", "-e", "--schema", "--registry", registry.url)
    assert (done.returncode, f"{name}-0 at offset 0: the first byte is 0x70" in done.stderr) == (1, True), done.stderr
