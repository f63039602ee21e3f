"""The page about differences from Kafka Streams is the one that its tests stand for."""

from __future__ import annotations

from tests.streams.differences import PAGE, page


def test_the_page_is_as_the_tests_have_it() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "write it anew: python -m tests.streams.differences"
