"""Change events of Debezium in rounds: values that they leave out, and deletions that name no row."""

import base64
import hashlib
import json
import uuid

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.lake.driven_rounds import Sent, both_ways, documents, event

TABLES = ["delta", "iceberg"]
TEXT = "__debezium_unavailable_value"
ENCODED = base64.b64encode(TEXT.encode()).decode()
NAMED = str(uuid.UUID(bytes=hashlib.md5(TEXT.encode()).digest(), version=3))


def upsert(op="u", **state):
    return event(op, None, {"id": 1, **state})


def loaded(make, form, *events, **options):
    found = both_ways(make, form, documents(*events), key="id", debezium=True, **options)
    assert found.dead == {}
    return [{name: value for name, value in row.items() if name != "offset"} for row in found.rows()]


@pytest.mark.parametrize("form", TABLES)
@pytest.mark.parametrize(
    ("value", "left_out"),
    [
        ("a long text", TEXT),
        ("AAEC", ENCODED),
        (["a", "b"], [TEXT]),
        ([1, 2], list(TEXT.encode())),
        (["7f1c9dd4-6b0e-4f8c-9d0d-0f3c5f1f8a11"], [NAMED]),
    ],
)
def test_a_value_that_did_not_change_stays(memory_lake, form, value, left_out):
    events = [upsert("r", doc=value, n=5), upsert(doc=left_out, n=6), upsert(doc=left_out, n=7)]
    assert loaded(memory_lake, form, *events) == [{"id": 1, "doc": value, "n": 7}]


@pytest.mark.parametrize("form", TABLES)
def test_members_of_an_hstore_that_did_not_change_stay(memory_lake, form):
    (row,) = loaded(memory_lake, form, upsert("c", tags={"a": "b"}, n=5), upsert(tags={TEXT: TEXT}, n=6))
    assert row["n"] == 6 and row["tags"]["a"] == "b" and row["tags"][TEXT] is None


@pytest.mark.parametrize("form", TABLES)
def test_flattened_values_that_did_not_change_stay(memory_lake, form):
    (row,) = loaded(memory_lake, form, upsert("c", doc="x", n=5), upsert(doc=TEXT, n=6), flatten=True)
    assert row == {"id": 1, "doc": "x", "n": 6}


@pytest.mark.parametrize("form", TABLES)
def test_flattened_members_of_an_hstore_that_did_not_change_stay(memory_lake, form):
    events = [upsert("c", tags={"a": "b", "c": "d"}, n=5), upsert(tags={TEXT: TEXT}, n=6), upsert(tags={"a": "e"}, n=7)]
    (row,) = loaded(memory_lake, form, *events[:2], flatten=True)
    assert (row["n"], row["tags_a"], row["tags_c"]) == (6, "b", "d")
    (row,) = loaded(memory_lake, form, *events, flatten=True)
    assert (row["n"], row["tags_a"], row["tags_c"]) == (7, "e", None)


@pytest.mark.parametrize("form", TABLES)
def test_the_placeholder_may_have_another_text(memory_lake, form):
    events = [upsert("c", doc="x", note=TEXT), upsert(doc="?", note=TEXT)]
    assert loaded(memory_lake, form, *events, debezium_unavailable="?") == [{"id": 1, "doc": "x", "note": TEXT}]


@pytest.mark.parametrize("form", TABLES)
def test_a_row_without_an_earlier_value_keeps_the_placeholder_and_is_told_of(memory_lake, form, caplog):
    deleted = event("d", {"id": 1}, None)
    rows = loaded(memory_lake, form, upsert("c", doc="x"), deleted, upsert(doc=TEXT))
    assert rows == [{"id": 1, "doc": TEXT}]
    assert "1 rows keep '__debezium_unavailable_value'" in caplog.text


states = st.fixed_dictionaries(
    {"id": st.sampled_from([1, 2])},
    optional={"doc": st.sampled_from(["a", "b", TEXT, None]), "items": st.sampled_from([["x"], [TEXT], None])},
)
events = st.one_of(
    st.builds(event, st.just("u"), st.none(), states), st.builds(event, st.just("d"), states | st.none(), st.none())
)


@pytest.mark.parametrize("form", TABLES)
@given(st.lists(st.tuples(events, st.sampled_from([1, 2])), min_size=2, max_size=7), st.integers(1, 6))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_cuts_of_events_that_leave_values_out_make_one_table(memory_lake, form, given_events, cut):
    records = [Sent(json.dumps(each).encode(), b'{"id":%d}' % number) for each, number in given_events]
    whole, parts = (memory_lake(form, key="id", debezium=True) for _ in range(2))
    whole.load(*records)
    for part in (records[:cut], records[cut:]):
        parts.load(*part)
    assert whole.dead == parts.dead == {}
    assert whole.rows() == parts.rows()


KEYS = [b'{"id":1}', b'{"schema":{"type":"struct"},"payload":{"id":1}}']


@pytest.mark.parametrize("form", TABLES)
@pytest.mark.parametrize("key", KEYS, ids=["plain", "with a schema"])
@pytest.mark.parametrize("before", [None, {"n": 1}, {"id": None}])
def test_a_deletion_without_its_row_goes_by_the_records_key(memory_lake, form, key, before):
    made = [Sent(json.dumps(event("c", None, {"id": number, "n": 1})).encode()) for number in (1, 2)]
    records = [*made, Sent(json.dumps(event("d", before, None)).encode(), key), Sent(None, key)]
    found = both_ways(memory_lake, form, records, key="id", debezium=True)
    assert found.dead == {} and [row["id"] for row in found.rows()] == [2]


@pytest.mark.parametrize("form", TABLES)
@pytest.mark.parametrize("key", [None, b"", b"k", b"[1]", b"{}", b'{"id":null}', b"\0\0\0\0\1\2"])
def test_a_deletion_that_names_no_row_is_a_dead_letter(memory_lake, form, key):
    gone = json.dumps(event("d", None, None)).encode()
    records = [Sent(gone, key), *documents(event("c", None, {"id": 1})), Sent(gone, key)]
    found = both_ways(memory_lake, form, records, key="id", debezium=True)
    assert list(found.dead) == [0, 2] and "without id in its record's JSON key" in found.dead[2]
    assert [row["id"] for row in found.rows()] == [1]
