"""The verdict of `make mirror-campaign` finds differences."""

from __future__ import annotations

from tests.mirror.campaign import Truth, compared

from ottla.client import ConsumedRecord


def records(*values: str, partition: int = 0, first: int = 0) -> list[ConsumedRecord]:
    return [
        ConsumedRecord("t", partition, first + at, 5, 0, b"k", value.encode(), (), 0) for at, value in enumerate(values)
    ]


def test_what_is_lost_doubled_or_in_another_order_is_a_difference() -> None:
    assert compared(records("a", "b"), records("a", "b", first=7)) == []
    assert compared(records("a", "b"), records("a")) == ["partition 0: 1 lost, 0 doubled, 1 for 2"]
    assert compared(records("a"), records("a", "a")) == ["partition 0: 0 lost, 1 doubled, 2 for 1"]
    assert compared(records("a", "b"), records("b", "a")) == ["partition 0: 0 lost, 0 doubled, 2 for 2"]
    assert compared(records("a"), records("a", partition=1))


def test_the_truth_about_an_offset_is_the_next_record_that_is_there() -> None:
    source, target = records("a", first=4) + records("b", first=9), records("a", "b")
    assert [Truth(source, target).of(0, offset) for offset in (4, 5, 9, 10)] == [0, 1, 1, 2]
