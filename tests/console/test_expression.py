"""Expressions over records."""

from __future__ import annotations

import pytest
from tests.console.records import shown

from ottla.console.expression import WrongExpression, expression

ORDER = shown(
    b'{"amount": 120, "name": "Anna", "paid": true, "note": null, "a b": 1, "items": [{"id": 4}, {"id": 9}]}',
    b"k1",
    (("trace", b"t-1"), ("span.id", b"7")),
)


def holds(text: str) -> bool:
    return expression(text, 10_000_000).test(ORDER)


@pytest.mark.parametrize(
    "text",
    [
        "value.amount > 100",
        "$.amount>=120",
        "value.amount = 120.0",
        "value.amount != 121",
        "value.name = 'Anna'",
        'value.name ~ "ANN"',
        "value.name !~ 'bo'",
        "value.paid = true",
        "value.note = null",
        "value.items[0].id = 4",
        "value.items[*].id = 9",
        'value["a b"] = 1',
        "value.name",
        "not value.absent",
        "value.absent != 3",
        "value.absent !~ 'x'",
        "key = 'k1' and header.trace ~ 't-'",
        "header.span.id = '7'",
        "partition = 3 and offset = 7 and size > 10",
        "time < '-1h'",
        "value.amount < 5 or (value.paid = true and not partition = 1)",
        "!(value.amount < 5) && value.paid",
        "value ~ 'items'",
    ],
)
def test_an_expression_holds(text: str) -> None:
    assert holds(text)


@pytest.mark.parametrize(
    "text",
    [
        "value.amount > 'a'",
        "value.amount > 120",
        "value.paid = 1",
        "value.note",
        "value.absent",
        "value.absent > 0",
        "value.items[2].id = 4",
        "value.items[*].id = 5",
        "value.amount = 1 and value.paid = true or key = 'k2'",
        "header.none = 'x'",
        "not key",
    ],
)
def test_an_expression_does_not_hold(text: str) -> None:
    assert not holds(text)


def test_and_binds_more_than_or() -> None:
    assert holds("key = 'k1' or key = 'k2' and key = 'k3'")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("valeu.a = 1", "Did you mean|value"),
        ("amount > 3", "write value.amount"),
        ("value.a =", "goes a number, a text in quotes"),
        ("value.a = anna", "goes a number, a text in quotes"),
        ("(value.a = 1", r"a \) is missing"),
        ("value.a = 1 key", "is one too many"),
        ("offset.a = 1", "has no fields"),
        ("header = 'x'", "write header.NAME"),
        ("time > 'soon'", "is not a time"),
        ("value.a = 1 ; drop", "is not understood"),
        ("", "a field is missing"),
        ("(" * 100 + "key" + ")" * 100, "too deeply"),
        ("not " * 100 + "key", "too deeply"),
    ],
)
def test_a_wrong_expression_says_what_to_write(text: str, said: str) -> None:
    with pytest.raises(WrongExpression, match=said):
        holds(text)


def test_a_null_value_has_no_fields_and_is_null() -> None:
    gone = shown(None, b"k")
    assert expression("value = null", 0).test(gone)
    assert not expression("value.a = 1", 0).test(gone)
    assert not expression("value ~ 'null'", 0).test(gone)
