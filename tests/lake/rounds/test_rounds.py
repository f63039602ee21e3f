"""The same records make the same rows and the same dead letters, however they fall into rounds."""

import itertools
import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.lake.driven_rounds import TOPIC, Sent, both_ways, documents, event, wrapped

from ottla.lake import LakeRefused
from ottla.lake.columns.exact import with_notes
from ottla.lake.columns.json_columns import pack_schema, unpack_schema

BIG = 9007199254740993
FORMATS = ["parquet", "delta", "iceberg"]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"n": BIG}, {"n": 0.5}),
        ({"n": 0.5}, {"n": BIG}),
        ({"n": [BIG]}, {"n": [0.5]}),
        ({"m": {"x": BIG}}, {"m": {"x": 0.5}}),
        ({"n": (1 << 63) - 1}, {"n": 0.5}),
    ],
)
def test_a_whole_number_keeps_its_digits_beside_real_ones_and_stops_no_topic(memory_lake, form, first, second):
    found = both_ways(memory_lake, form, documents(first, second, {"n": None}, {"o": 7}))
    assert list(found.dead) == [1] and "a double cannot hold" in found.dead[1]
    (name,) = first
    assert found.rows()[0][name] == first[name]


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_a_number_that_only_the_table_knows_of_stops_no_topic(memory_lake, form):
    """The lake's notes may be older than the rule, or the number another program's."""
    lake = memory_lake(form)
    lake.load(*documents({"n": BIG, "m": {"x": 1}}))
    forgotten = with_notes(unpack_schema(lake.committed.columns[TOPIC]), ())
    lake.committed = replace(lake.committed, columns={TOPIC: pack_schema(forgotten)})
    assert list(lake.load(*documents({"n": 0.5}, {"n": 8, "m": {"x": 0.5}}))) == [1]
    assert [row["n"] for row in lake.rows()] == [BIG, 8]
    assert list(lake.load(*documents({"n": 0.5}, {"n": 9}))) == [1, 3]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(
    ("one", "other"),
    [("offset", "value_offset"), ("value_topic", "topic"), ("a b", "a_b"), ("a_b", "a;b"), ("Key", "value_key")],
)
def test_fields_whose_columns_would_have_one_name_never_share_it(memory_lake, form, one, other):
    records = documents({one: 1}, {other: "x"}, {one: 2, other: "y"}, {other: "z", one: 3})
    found = both_ways(memory_lake, form, records)
    assert found.dead == {}
    columns = [name for name in found.rows()[0] if name != "offset"]
    assert [[row[name] for name in columns] for row in found.rows()] == [[1, None], [None, "x"], [2, "y"], [3, "z"]]


@pytest.mark.parametrize("form", FORMATS)
def test_a_lake_whose_earlier_version_named_columns_otherwise_is_not_mixed_up(memory_lake, form, monkeypatch):
    lake = memory_lake(form)
    with monkeypatch.context() as earlier:
        former = {"key": "value_value_key"}  # a field of another's new name took it, whichever came first
        earlier.setattr(
            "ottla.lake.columns.values.column_names", lambda names: [former.get(name, name) for name in names]
        )
        lake.load(*documents({"key": "x", "value_key": 1}))
    with pytest.raises(LakeRefused, match="an earlier version of ottla chose other columns"):
        lake.load(*documents({"key": "y", "value_key": 2}))


@pytest.mark.parametrize("form", ["delta", "iceberg"])
@pytest.mark.parametrize(("one", "other"), [("offset", "value_offset"), ("a b", "a_b")])
def test_fields_of_states_whose_columns_would_have_one_name_are_refused(memory_lake, form, one, other):
    records = documents(
        {"op": "c", "before": None, "after": {"id": 1, one: 1}},
        {"op": "c", "before": None, "after": {"id": 2, other: 1}},
    )
    found = both_ways(memory_lake, form, records, key="id", debezium=True)
    assert list(found.dead) == [1] and f"field {other}: its column would have the name" in found.dead[1]


def test_a_field_named_like_a_members_path_is_a_dead_letter_in_iceberg(memory_lake):
    found = both_ways(memory_lake, "iceberg", documents({"a": {"b": 1}}, {"a.b": 2}, {"a": {"b": 3}}))
    assert list(found.dead) == [1] and "field a.b" in found.dead[1]


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_a_field_that_divides_a_table_keeps_its_type(memory_lake, form):
    records = documents({"by": 1}, {"by": 0.5}, {"by": 2}, {"by": "x"})
    found = both_ways(memory_lake, form, records, partition_by="by")
    assert list(found.dead) == [1, 3]


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_change_events_with_and_without_an_envelope_lie_side_by_side(memory_lake, form):
    records = documents(
        event("c", None, {"id": 1, "n": 1}),
        wrapped(event("c", None, {"id": 2, "n": 2, "x": "y"})),
        event("u", {"id": 2}, {"id": 2, "n": 3}),
        wrapped(event("u", None, {"id": 1, "n": 4})),
        wrapped(event("c", None, {"id": 3, "n": 5})),
        event("d", {"id": 3}, None),
        event("c", None, {"id": 4, "n": 6}) | {"payload": {"n": 1}},
    )
    for order in (records, [records[1], records[0], *records[2:]]):
        found = both_ways(memory_lake, form, order, key="id", debezium=True)
        assert found.dead == {}
        assert sorted((row["id"], row["n"]) for row in found.rows()) == [(1, 4), (2, 3), (4, 6)]


@pytest.mark.parametrize("form", ["delta", "iceberg"])
@pytest.mark.parametrize(
    "bad", [{"op": 5}, {"op": "c", "after": 5}, {"op": "c", "before": "x"}, {"payload": "x"}, {"payload": {"op": 1}}]
)
def test_a_value_that_is_no_change_event_keeps_no_later_event_out(memory_lake, form, bad):
    records = documents(bad, event("c", None, {"id": 1}), wrapped(event("c", None, {"id": 2})))
    found = both_ways(memory_lake, form, records, key="id", debezium=True)
    assert list(found.dead) == [0]
    assert sorted(row["id"] for row in found.rows()) == [1, 2]


@pytest.mark.parametrize("form", ["parquet", "delta"])
def test_a_table_may_be_divided_by_real_numbers(memory_lake, form):
    found = both_ways(memory_lake, form, documents({"by": 0.5}, {"by": 2}, {"by": None}), partition_by="by")
    assert found.dead == {} and [row["by"] and float(row["by"]) for row in found.rows()] == [0.5, 2, None]


@pytest.mark.parametrize("form", ["parquet", "delta"])
def test_the_last_day_of_the_calendar_is_a_day_like_others(memory_lake, form):
    texts = ["9999-12-31", "9999-12-31T23:59:59Z", "9999-12-30T23:59:59.999999Z", "0001-01-01"]
    values = [{"at": text} for text in texts] + [{"n": 253_402_214_400_000}]
    found = both_ways(memory_lake, form, documents(*values[:4]), event_time="at", partition_by="day")
    assert [str(row["date"]) for row in found.rows()] == ["9999-12-31", "9999-12-31", "9999-12-30", "0001-01-01"]
    found = both_ways(memory_lake, form, documents(values[4]), event_time="n", partition_by="day")
    assert [str(row["date"]) for row in found.rows()] == ["9999-12-31"]


@pytest.mark.parametrize("form", FORMATS)
def test_an_empty_value_before_the_first_one_with_content_is_null_in_one_round_too(memory_lake, form):
    full = {"a": [1], "b": [[1], []], "c": ["x"], "d": [{"x": 1}], "e": {"x": 1}, "f": {"x": [0.5]}}
    empty = {"a": [], "b": [[]], "c": [None], "d": [{}], "e": {}, "f": {"x": []}}
    found = both_ways(memory_lake, form, documents(empty, {"n": 1}, full, empty))
    first, _, third, fourth = [{name: row[name] for name in full} for row in found.rows()]
    assert first == dict.fromkeys(full)
    assert third == full
    assert fourth == empty | {"d": [{"x": None}], "e": {"x": None}}


@pytest.mark.parametrize("form", FORMATS)
def test_what_is_empty_inside_a_known_object_is_null_until_its_first_content(memory_lake, form):
    values = [{"a": [{"x": 1, "y": [], "z": {}}]}, {"a": [{"x": 2, "y": [1]}]}, {"a": [{"y": []}, {"z": {"w": "x"}}]}]
    found = both_ways(memory_lake, form, documents(*values))
    z = {"w": "x"}
    assert [row["a"] for row in found.rows()] == [
        [{"x": 1, "y": None, "z": None}],
        [{"x": 2, "y": [1], "z": None}],
        [{"x": None, "y": [], "z": None}, {"x": None, "y": None, "z": z}],
    ]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(("one", "other"), [(0, 1), (1, 0)])
def test_the_partition_of_the_first_content_decides_what_was_empty_before(memory_lake, form, one, other):
    """Content in partition 1 comes after all of partition 0; content in partition 0 before all of partition 1."""
    empty, full = documents({"a": []}, {"n": 1}), documents({"a": []}, {"a": [1]}, {"a": []})
    sides = {one: empty, other: full}
    whole, parts = memory_lake(form), memory_lake(form)
    whole.load(*sides[0], beside=sides[1])
    parts.load(*sides[0])
    parts.load(beside=sides[1])
    assert whole.rows() == parts.rows()
    late, early = [None, None, None, [1], []], [None, [1], [], [], None]
    assert [row["a"] for row in whole.rows()] == (late if other else early)


@pytest.mark.parametrize("form", ["parquet", "delta"])
def test_a_text_that_is_refused_makes_no_column(memory_lake, form):
    bad = Sent(rb'{"a": ["\ud800"], "b": 1}')
    found = both_ways(memory_lake, form, [bad, *documents({"a": []}, {"a": [1]}, {"b": "x"})])
    assert list(found.dead) == [0] and "escape" in found.dead[0]
    assert [row["a"] for row in found.rows()] == [None, [1], None]


numbers = st.sampled_from([1, 2, BIG, -BIG, 1 << 53, 0.5, 2.0**60, None, True, "x"])
objects = st.dictionaries(
    st.sampled_from(["x", "y", "b"]), numbers | st.lists(numbers, max_size=1) | st.just({}), max_size=2
)
fields = st.dictionaries(
    st.sampled_from(["a", "A", "a b", "a_b", "offset", "value_offset", "o"]),
    st.one_of(numbers, st.lists(numbers, max_size=2), objects, st.lists(objects, max_size=2)),
    max_size=3,
)
states = st.fixed_dictionaries({"id": st.sampled_from([1, 2])}, optional={"n": numbers, "a b": numbers, "a_b": numbers})
events = st.one_of(
    st.builds(event, st.just("c"), st.none(), states),
    st.builds(event, st.just("u"), st.none() | states, states),
    st.builds(event, st.just("d"), states, st.none()),
    st.builds(event, st.sampled_from(["x", 5]), states, st.none()),
)


def cut(records, cuts):
    edges = sorted({0, len(records), *(at for at in cuts if at < len(records))})
    return [records[begin:end] for begin, end in itertools.pairwise(edges)]


@pytest.mark.parametrize("form", FORMATS)
@given(st.lists(fields | st.none(), min_size=2, max_size=8), st.sets(st.integers(1, 7), min_size=1))
@example([{"a": 1, "A": 1}] * 2, {1})
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_cuts_of_plain_records_make_one_lake(memory_lake, form, values, cuts):
    check_cuts(memory_lake, form, documents(*values), cuts)


@pytest.mark.parametrize("form", ["delta", "iceberg"])
@given(
    st.lists(st.one_of(events, events.map(wrapped), st.none()), min_size=2, max_size=8),
    st.sets(st.integers(1, 7), min_size=1),
)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_cuts_of_change_events_make_one_lake(memory_lake, form, values, cuts):
    check_cuts(memory_lake, form, documents(*values), cuts, key="id", debezium=True)


def check_cuts(memory_lake, form, records, cuts, **options):
    whole, parts = memory_lake(form, **options), memory_lake(form, **options)
    whole.load(*records)
    for part in cut(records, cuts):
        parts.load(*part)
    assert whole.dead.keys() == parts.dead.keys()
    if len(whole.dead) < len(records):  # else there may be no table
        assert texts(whole) == texts(parts)


def texts(lake):
    """Rows as text, where 1 is not 1.0; a missing column and null are one."""
    return [json.dumps({k: v for k, v in row.items() if v is not None}, sort_keys=True) for row in lake.rows()]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("options", [{"exclude_fields": "n"}, {"fields": "m"}])
def test_a_field_with_large_numbers_may_be_left_out_later(memory_lake, form, options):
    lake = memory_lake(form)
    lake.load(*documents({"n": BIG, "m": 1}))
    lake.settings = replace(lake.settings, values=replace(lake.settings.values, **fields_of(options)))
    assert lake.load(*documents({"n": 0.5, "m": 2})) == {}
    assert [(row["m"], row["n"]) for row in lake.rows()] == [(1, BIG), (2, None)]


def fields_of(options):
    """The options as a kind of values has them."""
    return {
        {"exclude_fields": "without", "fields": "only"}[name]: frozenset({field}) for name, field in options.items()
    }
