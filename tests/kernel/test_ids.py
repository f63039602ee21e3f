"""Ids: their text form, and invalid ones."""

from __future__ import annotations

import pytest

from ottla.kernel.ids import new_id, parse_topic_id, topic_id_text


class Given:
    """Entropy that returns given bytes."""

    def __init__(self, *draws: bytes) -> None:
        self.draws = list(draws)

    def bytes(self, count: int) -> bytes:
        return self.draws.pop(0)


@pytest.mark.parametrize("refused", [bytes(16), bytes(15) + b"\1", b"\xf8" + bytes(15), b"\xfb" + bytes(15)])
def test_a_new_id_is_none_that_kafka_reserves_and_none_that_a_tool_takes_for_an_option(refused: bytes) -> None:
    fine = b"\xfc" + bytes(15)
    assert new_id(Given(refused, fine)) == fine  # type: ignore[arg-type]


def test_the_text_of_an_id_leads_back_to_it() -> None:
    assert parse_topic_id(topic_id_text(bytes(range(16)))) == bytes(range(16))
    with pytest.raises(ValueError, match="not a topic id"):
        parse_topic_id("too short")
