"""Searches over batches: bytes first, records where the bytes are, and never a hit less for it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.console.records import batch

from ottla.console.conditions import Matcher, Wanted, wanted
from ottla.console.masks import STARS, mask
from ottla.console.values import Viewer
from ottla.console.view import PageQuery
from ottla.records.batch import Batch
from ottla.web.exchange import HttpError

RECORDS = batch(
    [
        (b"k1", b'{"name": "Anna"}', ()),
        (b"k2", b'{"name": "anna \xe2\x84\xaa"}', (("trace", b"t1"),)),
        (None, None, (("trace", None),)),
        (b"\x80", b"\x80\x81anna\xff", ()),
    ]
)


def offsets(wish: Wanted, viewer: Viewer | None = None, records: Batch = RECORDS) -> list[int]:
    return [each.offset for each in Matcher(wish, viewer or Viewer(), 0).look(0, records, 0, 100).hits]


@pytest.mark.parametrize(
    ("wish", "found"),
    [
        (Wanted(text="ANNA"), [0, 1, 3]),
        (Wanted(text="Anna", exact_case=True), [0]),
        (Wanted(key="k2"), [1]),
        (Wanted(key="k"), []),
        (Wanted(header="trace"), [1, 2]),
        (Wanted(header="trace=t1"), [1]),
        (Wanted(text="anna k"), [1]),
        (Wanted(text="t1"), [1]),
        (Wanted(text="nowhere"), []),
        (Wanted(where="value = null"), [2]),
        (Wanted(where="value.name", text="anna", key="k1"), [0]),
        (Wanted(), [0, 1, 2, 3]),
    ],
)
def test_a_search_finds(wish: Wanted, found: list[int]) -> None:
    assert offsets(wish) == found


def test_only_records_between_the_offsets_are_looked_at() -> None:
    found = Matcher(Wanted(), Viewer(), 0).look(0, RECORDS, 1, 3)
    assert ([each.offset for each in found.hits], found.records) == ([1, 2], 2)


@given(st.text(max_size=6), st.text(max_size=20), st.booleans())
def test_the_look_at_bytes_leaves_out_no_hit(needle: str, value: str, exact: bool) -> None:
    """With a mask of another field there is no look at bytes; both ways find the same."""
    content = value.encode("utf-8", "replace")
    one = batch([(b"x", content, (("n", content),))])
    wish = Wanted(text=needle, exact_case=exact)
    slow = Viewer(masks=[mask("t:header.other")])
    assert Matcher(wish, Viewer(), 0).look(0, one, 0, 9) == Matcher(wish, slow, 0).look(0, one, 0, 9)


WORDS = ["anna", "Anna", "\u212aanna", "a/b", "\\", "x anna"]
SCALARS = st.one_of(st.sampled_from(WORDS), st.integers(-2_000, 2_000), st.floats(), st.booleans())
EXPRESSIONS = [
    "value.a = 1000",
    "value.a = 'anna'",
    "value ~ 'anna'",
    "value.a ~ 'ANNA' and value.anna",
    "key ~ 'kan'",
    "value.a = 1500 or value.a = 'anna'",
    "not value.a = 'anna'",
    "(value.a = 'anna') and key",
]


@given(st.dictionaries(st.sampled_from(["a", "anna"]), SCALARS), st.sampled_from(EXPRESSIONS), st.booleans())
def test_the_look_at_bytes_leaves_out_no_hit_of_an_expression(
    document: dict[str, Any], where: str, escapes: bool
) -> None:
    one = batch([(b"K\xe2\x84\xaaanna", json.dumps(document, ensure_ascii=escapes).encode(), ())])
    slow = Viewer(masks=[mask("t:header.other")])
    wish = Wanted(where=where)
    assert offsets(wish, Viewer(), one) == offsets(wish, slow, one)


@pytest.mark.parametrize("number", [b"1e3", b"1000.0", b"10E+2", b"999.99999999999999999999", b"0.1e4"])
def test_a_number_is_found_however_it_is_written(number: bytes) -> None:
    assert offsets(Wanted(where="value.a = 1000"), Viewer(), batch([(None, b'{"a": %s}' % number, ())])) == [0]


@pytest.mark.parametrize("where", ["value.a = 123456", "value.name = 'nowhere'", "value ~ 'nowhere' and partition = 3"])
def test_batches_without_the_bytes_of_an_expression_are_not_opened(where: str) -> None:
    class Unread(Viewer):
        def shown(self, *_: object) -> list[Any]:
            raise AssertionError("a record was read")

    assert offsets(Wanted(where=where), Unread(), batch([(b"k", b'{"a": 12345, "name": "anna"}', ())])) == []


def test_a_search_does_not_find_what_a_mask_hides() -> None:
    viewer = Viewer(masks=[mask("*:value.name"), mask("*:key"), mask("*:header.trace")])
    assert offsets(Wanted(text="anna"), viewer) == []
    assert offsets(Wanted(key="k1"), viewer) == []
    assert offsets(Wanted(header="trace=t1"), viewer) == []
    assert offsets(Wanted(where="value.name ~ 'anna'"), viewer) == []
    assert offsets(Wanted(where=f"value.name = '{STARS}'"), viewer) == [0, 1]


def test_a_key_is_in_one_partition_by_murmur2_as_javas_client_has_it() -> None:
    # org.apache.kafka.common.utils.UtilsTest: murmur2("foobar") is -790332482.
    assert Wanted(key="foobar").partition(1000) == (-790332482 & 0x7FFFFFFF) % 1000
    assert Wanted(key="foobar", partitioner="any").partition(1000) is None
    assert Wanted(text="foobar").partition(1000) is None


def test_a_wrong_expression_is_refused_before_anything_is_read() -> None:
    with pytest.raises(HttpError) as refusal:
        wanted(PageQuery({"where": "amount > 3"}), 0)
    assert (refusal.value.status, "write value.amount" in refusal.value.message) == (400, True)
