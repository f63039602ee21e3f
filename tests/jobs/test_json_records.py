"""JSON of state topics: the bytes that Java's tools write, and content that is none."""

from __future__ import annotations

import pytest

from ottla.jobs.json_records import compact_json, json_object


def test_json_has_no_blanks_and_keeps_letters_as_they_are() -> None:
    assert compact_json({"a": ["ü", 1]}) == '{"a":["ü",1]}'.encode()


def test_half_a_surrogate_pair_is_written_only_if_it_may_be() -> None:
    with pytest.raises(UnicodeEncodeError):
        compact_json("\ud800")
    assert compact_json("\ud800", "surrogatepass") == b'"\xed\xa0\x80"'


@pytest.mark.parametrize(
    ("content", "why"), [(b"{", "^no JSON: "), (b"[" * 100_000, "^no JSON: "), (b"[]", "^no JSON object$")]
)
def test_content_that_is_no_object_is_refused(content: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        json_object(content)
