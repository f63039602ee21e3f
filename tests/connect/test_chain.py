"""A connector's transformations in their order, under predicates, and the options that their aliases add."""

from __future__ import annotations

import pytest

from ottla.connect.chain import Chain, alias_options
from ottla.connect.errors import ConfigException, ConnectException, DataException
from ottla.connect.records import ConnectRecord

CHAIN = {
    "transforms": "hoist, mark,drop",
    "transforms.hoist.type": "org.apache.kafka.connect.transforms.HoistField$Value",
    "transforms.hoist.field": "line",
    "transforms.mark.type": "InsertField$Value",
    "transforms.mark.static.field": "env",
    "transforms.mark.static.value": "test",
    "transforms.mark.predicate": "orders",
    "transforms.drop.type": "Filter",
    "transforms.drop.predicate": "orders",
    "transforms.drop.negate": "true",
    "predicates": "orders",
    "predicates.orders.type": "TopicNameMatches",
    "predicates.orders.pattern": "orders-.*",
}


def test_steps_are_applied_in_their_order_under_their_predicates():
    chain = Chain(CHAIN)
    assert [step.alias for step in chain.steps] == ["hoist", "mark", "drop"]
    assert chain.apply(ConnectRecord("orders-eu", value=1)).value == {"line": 1, "env": "test"}
    assert chain.apply(ConnectRecord("logs", value=1)) is None


def test_a_refused_record_costs_only_itself():
    chain = Chain({"transforms": "c", "transforms.c.type": "Cast$Value", "transforms.c.spec": "int8"})
    refused = []
    records = [ConnectRecord("t", value=value) for value in ("1", "x", "2")]
    made = chain.apply_all(records, lambda record, step, fault: refused.append((record, step.alias, str(fault))))
    assert [record.value for record in made] == [1, 2]
    assert refused == [(records[1], "c", "Value (x) was out of range for requested data type")]
    with pytest.raises(DataException):
        chain.apply(records[1])


def test_an_intolerant_caller_ends_the_run():
    chain = Chain({"transforms": "c", "transforms.c.type": "Cast$Value", "transforms.c.spec": "int8"})

    def stop(record, step, fault):
        raise fault

    with pytest.raises(ConnectException):
        chain.apply_all([ConnectRecord("t", value="x")], stop)


def test_a_connector_without_transformations_keeps_its_records():
    records = [ConnectRecord("t", value=1)]
    assert Chain({}).apply_all(records, lambda *_: None) == records


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"transforms": "a,a"}, "Invalid value [a, a] for configuration transforms: Duplicate alias provided."),
        ({"transforms": "x"}, 'Missing required configuration "transforms.x.type" which has no default value.'),
        ({"transforms.drop.type": "Fitler"}, "Class Fitler could not be found (did you mean Filter?)."),
        ({"transforms.mark.predicate": "order"}, "Invalid value order for configuration transforms.mark.predicate: no "
         "such alias in predicates (did you mean orders?)"),
        ({"transforms.hoist.negate": "true"},
         "Invalid value true for configuration transforms.hoist.negate: there is no predicate to negate"),
        ({"predicates.orders.pattern": ""},
         "Invalid value  for configuration pattern: String must be non-empty"),
    ],
)  # fmt: skip
def test_a_chain_that_cannot_be_is_refused(changes, message):
    with pytest.raises(ConfigException) as refusal:
        Chain({**CHAIN, **changes})
    assert str(refusal.value) == message


def test_an_alias_adds_a_group_of_options():
    definitions = [each.definition() for each in alias_options(CHAIN)]
    mark = [(each["name"], each["order_in_group"]) for each in definitions if each["group"] == "Transforms: mark"]
    assert mark == [
        ("transforms.mark.type", 0),
        ("transforms.mark.plugin.version", 1),
        ("transforms.mark.negate", 2),
        ("transforms.mark.offset.field", 3),
        ("transforms.mark.partition.field", 4),
        ("transforms.mark.predicate", 5),
        ("transforms.mark.replace.null.with.default", 6),
        ("transforms.mark.static.field", 7),
        ("transforms.mark.static.value", 8),
        ("transforms.mark.timestamp.field", 9),
        ("transforms.mark.topic.field", 10),
    ]
    assert definitions[0]["display_name"] == "Transformation type for hoist"
    assert {each["group"] for each in definitions} == {
        "Transforms: hoist", "Transforms: mark", "Transforms: drop", "Predicates: orders",
    }  # fmt: skip


def test_faults_below_an_alias_are_reported_in_kafkas_words():
    given = {
        "transforms": "a,b", "transforms.a.type": "HoistField$Value", "transforms.b.type": "no.such.Smt",
        "predicates": "p", "predicates.p.type": "TopicNameMatches", "predicates.p.pattern": "(",
    }  # fmt: skip
    found = {each.option.name: each for each in alias_options(given).validate(given)}
    assert found["transforms.a.field"].errors == [
        'Missing required configuration "transforms.a.field" which has no default value.'
    ]
    assert found["transforms.b.type"].errors == [
        "Invalid value no.such.Smt for configuration transforms.b.type: Class no.such.Smt could not be found."
    ]
    assert found["transforms.b.type"].value is None
    assert (
        found["predicates.p.pattern"]
        .errors[0]
        .startswith("Invalid value ( for configuration pattern: Invalid regex: Unclosed group near index 1")
    )
    assert (
        "org.apache.kafka.connect.transforms.Filter"
        in found["transforms.a.type"].answer()["value"]["recommended_values"]
    )
