"""Offsets of the JDBC source."""

import pytest

from ottla.connect.errors import ConfigException
from ottla.connect.plugins.jdbc.anchor import Anchor, RowOffsets


def test_an_offset_comes_back_as_the_anchor_that_wrote_it_also_before_1970():
    for anchor in (Anchor(), Anchor(0, 0), Anchor(7), Anchor(None, 1_500_000_123_456), Anchor(-3, -1)):
        assert Anchor.of(anchor.offset()) == anchor


def test_an_offset_has_confluents_fields():
    assert Anchor(5, 1_000_123_456).offset() == {
        "incrementing": 5, "timestamp": 1_000_123, "timestamp_nanos": 123_456_000,
    }  # fmt: skip


def test_an_offset_of_another_connector_is_refused():
    with pytest.raises(ConfigException, match="not position"):
        Anchor.of({"position": 7})
    with pytest.raises(ConfigException, match="whole number, not 'x'"):
        Anchor.of({"incrementing": "x"})


def test_with_a_time_alone_an_offset_passes_a_time_once_all_its_rows_were_read():
    progress = RowOffsets(Anchor(), by_time_alone=True)
    read = [progress.row(Anchor(None, each)) for each in (1000, 1000, 2000)]
    assert read == [None, None, Anchor(None, 1000).offset()]
    assert progress.end() == Anchor(None, 2000).offset()
