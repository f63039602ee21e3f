"""Records as actions of the bulk API, schemas as mappings, answers as outcomes."""

import json
from decimal import Decimal

import pytest

from ottla.connect import data
from ottla.connect.data import Instant
from ottla.connect.errors import DataException
from ottla.connect.plugins.search.documents import Outcome, Writing, mapping, outcomes, plain
from ottla.connect.records import Header, SinkRecord


def a_record(value={"a": 1}, key="k", headers=(), topic="Shop"):  # noqa: B006  # no test changes it
    return SinkRecord(topic, 2, None, key, None, value, 99, headers, offset=7)


def lines(action):
    return [json.loads(line) for line in action.body.splitlines()]


def test_a_key_is_the_id_and_the_offset_the_version():
    meta = {"_index": "shop", "_id": "k", "version": 7, "version_type": "external"}
    assert lines(Writing().action(a_record())) == [{"index": meta}, {"a": 1}]
    assert lines(Writing(null_values="delete").action(a_record(None))) == [{"delete": meta}]


def test_without_a_key_the_place_in_kafka_is_the_id():
    for writing in (Writing(key_ignore=True), Writing(topics_without_key=frozenset({"Shop"}))):
        assert lines(writing.action(a_record(key=None)))[0] == {"index": {"_index": "shop", "_id": "Shop+2+7"}}


def test_a_header_may_hold_the_version():
    writing = Writing(version_header="v")
    assert lines(writing.action(a_record(headers=(Header("v", None, "12"),))))[0]["index"]["version"] == 12
    for value in (None, "x", -1):
        with pytest.raises(DataException, match="which is no version"):
            writing.action(a_record(headers=(Header("v", None, value),)))


def test_an_upsert_merges_and_a_data_stream_only_creates():
    head, body = lines(Writing(upsert=True, conflicts=3).action(a_record()))
    assert head == {"update": {"_index": "shop", "_id": "k", "retry_on_conflict": 3}}
    assert body == {"doc": {"a": 1}, "doc_as_upsert": True}
    stream = Writing(stream="logs-x-${topic}", time_fields=("at", "a"))
    assert lines(stream.action(a_record())) == [
        {"create": {"_index": "logs-x-shop", "_id": "k"}}, {"a": 1, "@timestamp": 1},
    ]  # fmt: skip
    assert lines(stream.action(a_record({"b": 1})))[1] == {"b": 1, "@timestamp": 99}


def test_a_null_value_is_left_out_deleted_or_refused():
    assert Writing(null_values="ignore").action(a_record(None)) is None
    assert Writing(null_values="delete").action(a_record(None, key=None)) is None
    with pytest.raises(DataException, match="set behavior"):
        Writing().action(a_record(None))


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"key": None}, "set key.ignore=true"),
        ({"key": 1.5}, "the key is a float"),
        ({"key": True}, "the key is a bool"),
        ({"value": "text"}, "a document is an object"),
        ({"value": {"a": float("nan")}}, "no form in JSON"),
        ({"topic": "__"}, "no name that an index"),
    ],
)
def test_a_record_that_cannot_be_a_document_is_refused(given, fault):
    with pytest.raises(DataException, match=fault):
        Writing().action(a_record(**given))


INNER = data.struct([("d", data.DATE_SCHEMA), ("t", data.TIME_SCHEMA), ("at", data.TIMESTAMP_SCHEMA)])
OUTER = data.struct([
    ("in", INNER), ("n", data.decimal(2)), ("f", data.FLOAT32), ("b", data.BYTES), ("l", data.array(data.STRING)),
    ("m", data.map_of(data.STRING, data.INT8)), ("o", data.map_of(data.INT32, data.BOOLEAN)),
])  # fmt: skip


def test_values_with_a_schema_are_plain_json():
    inner = data.Struct.of(INNER, d=Instant(86_400_000), t=Instant(1_500), at=Instant(5))
    value = data.Struct.of(
        OUTER, **{"in": inner}, n=Decimal("1.50"), f=0.10000000149011612, b=b"\x00", l=["x"], m={"k": 1}, o={3: True}
    )
    found = plain(OUTER, value, compact=True)
    assert found == {
        "in": {"d": "1970-01-02", "t": "00:00:01.500", "at": 5}, "n": 1.5, "f": 0.1, "b": "AA==", "l": ["x"],
        "m": {"k": 1}, "o": [{"key": 3, "value": True}],
    }  # fmt: skip
    assert plain(OUTER, value, compact=False)["m"] == [{"key": "k", "value": 1}]


def test_a_schema_makes_a_mapping():
    text = {"type": "text", "fields": {"keyword": {"type": "keyword", "ignore_above": 256}}}
    found = mapping(OUTER, compact=True)["properties"]
    assert found["in"] == {"properties": {"d": {"type": "date"}, "t": {"type": "keyword"}, "at": {"type": "date"}}}
    assert {name: found[name] for name in "nfblm"} == {
        "n": {"type": "double"}, "f": {"type": "float"}, "b": {"type": "binary"}, "l": text, "m": {"type": "object"},
    }  # fmt: skip
    assert found["o"] == {"properties": {"key": {"type": "integer"}, "value": {"type": "boolean"}}}


def test_each_action_has_an_outcome_with_the_servers_reason():
    error = {"type": "mapper_parsing_exception", "reason": "no", "caused_by": {"reason": "a is text"}}
    items = [(200, None), (404, None), (403, "full"), (409, {"type": "version_conflict"}), (429, "full"), (400, error)]
    answer = {"items": [{"index": {"status": status, "error": error}} for status, error in items]}
    actions = [Writing().action(a_record())] * 6
    assert outcomes(json.dumps(answer).encode(), actions) == [
        (Outcome.TAKEN, ""), (Outcome.TAKEN, ""), (Outcome.LATER, "full"),
        (Outcome.NEWER, "version_conflict: None"), (Outcome.LATER, "full"),
        (Outcome.REFUSED, "mapper_parsing_exception: no (a is text)"),
    ]  # fmt: skip
    with pytest.raises(ValueError, match="4 actions have 6 answers"):
        outcomes(json.dumps(answer).encode(), actions[:4])
