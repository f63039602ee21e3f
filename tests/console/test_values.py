"""Keys and values as people read them, with masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tests.console.records import shown

from ottla.console.masks import STARS, Masks, mask
from ottla.console.values import MOST_SHOWN, Viewer


@pytest.mark.parametrize(
    ("content", "kind", "text"),
    [
        (None, "null", "null"),
        (b"", "text", ""),
        (b"null", "json", "null"),
        (b'{"a": 1}', "json", '{"a": 1}'),
        (b"a word", "text", "a word"),
        (b"\xff\x00", "bytes", "ff 00"),
        (b"[" * 100_000, "text", "[" * 100_000),
    ],
)
def test_a_value_is_shown_by_its_kind(content: bytes | None, kind: str, text: str) -> None:
    found = shown(content).value
    assert (found.kind, found.text, found.size) == (kind, text, len(content or b""))


def test_numbers_of_javas_serializers_are_read_beside_their_bytes() -> None:
    assert shown(b"\xff\xff\xff\xff").value.note == "as a number -1"
    assert shown(b"\0\0\0\0\0\0\1\0").value.note == "as a number 256"
    assert shown(b"word").value.note == ""


def test_a_long_value_is_cut_on_a_page_and_says_so() -> None:
    found = shown(b"x" * (MOST_SHOWN + 1)).value
    assert found.short == "x" * MOST_SHOWN + "…"
    assert len(found.text) == MOST_SHOWN + 1


def decode(values: Sequence[bytes | None], headers: Sequence[bytes | None]) -> list[Any]:
    return [ValueError("no schema 9") if (value or b"")[4:5] == b"\x09" else {"of": header} for value, header in
            zip(values, headers, strict=True)]  # fmt: skip


def test_values_that_name_a_schema_are_decoded_and_others_stay() -> None:
    viewer = Viewer(decode)
    assert shown(b"\0\0\0\0\1x", viewer=viewer).value.text == '{"of": null}'
    assert shown(b"x", headers=(("__value_schema_id", b"id"),), viewer=viewer).value.kind == "schema"
    assert shown(b'{"a": 1}', viewer=viewer).value.kind == "json"
    assert shown(b"x", b"\0\0\0\0\1x", viewer=viewer).key.kind == "schema"
    broken = shown(b"\0\0\0\0\x09x", viewer=viewer).value
    assert (broken.kind, broken.note) == ("bytes", "not decoded: no schema 9")


def test_a_mask_hides_its_field_and_nothing_else() -> None:
    viewer = Viewer(masks=[mask("*:value.card.number"), mask("*:header.auth")])
    found = shown(b'{"card": {"number": 4, "type": "v"}, "n": [1]}', b"k", (("auth", b"x"), ("b", b"y")), viewer=viewer)
    assert found.value.value == {"card": {"number": STARS, "type": "v"}, "n": [1]}
    assert "4" not in found.value.text
    assert (found.key.text, found.headers) == ("k", [("auth", STARS), ("b", "y")])
    listed = shown(b'{"card": [{"number": 4}, {"number": 5}]}', viewer=viewer)
    assert listed.value.text == f'{{"card": [{{"number": "{STARS}"}}, {{"number": "{STARS}"}}]}}'


def test_a_value_that_is_no_json_is_hidden_whole_where_one_of_its_fields_is() -> None:
    viewer = Viewer(masks=[mask("*:value.card")])
    for content in (b"card=4", b"\xffcard", b"\0\0\0\0\1card"):
        found = shown(content, viewer=viewer).value
        assert (found.text, found.searched, found.value) == (STARS, STARS, None)
    assert shown(None, viewer=viewer).value.kind == "null"


def test_masks_are_of_topics_by_pattern() -> None:
    masks = Masks([mask("orders-*:key"), mask("a:b:value.x.y")])
    assert [each.part for each in masks.of("orders-1")] == ["key"]
    assert [each.path for each in masks.of("a:b")] == [("x", "y")]
    assert masks.of("other") == ()


@pytest.mark.parametrize("text", ["orders", "orders:values", ":key", "orders:header", "orders:value..x", "x:key."])
def test_a_wrong_mask_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write TOPIC:key, TOPIC:value"):
        mask(text)
