"""The judges of copies and of money notice what is lost, doubled, strange or out of order."""

from __future__ import annotations

import pytest
from tests.once.judge import differences
from tests.once.ledger import OPENING, Ledger, Leg, decode

SOURCE = {b"a": [b"1", b"3", b"5"], b"b": [b"2", b"4"]}


def test_an_exact_copy_has_no_differences():
    assert differences(SOURCE, {key: list(values) for key, values in SOURCE.items()}) == []


@pytest.mark.parametrize(
    ("copied", "said"),
    [
        ([b"1", b"5"], "a: 3 lost"),
        ([b"1", b"3", b"3", b"5"], "a: 3 twice"),
        ([b"1", b"3", b"5", b"9"], "a: 9 strange"),
        ([b"1", b"5", b"3"], "a: the same values in another order"),
        ([b"1", b"1"], "a: 3, 5 lost; 1 twice"),
        ([], "a: 1, 3, 5 lost"),
    ],
)
def test_each_kind_of_difference_is_named_with_its_partition(copied, said):
    assert differences(SOURCE, SOURCE | {b"a": copied}) == [said]


def test_a_partition_that_is_missing_or_from_elsewhere_differs():
    assert differences(SOURCE, {b"a": SOURCE[b"a"], b"c": [b"7"]}) == ["b: 2, 4 lost", "c: 7 strange"]


def books(*legs: tuple[int, str, int, int]) -> list[str]:
    ledger = Ledger(range(3))
    for leg in legs:
        ledger.take(decode(Leg(*leg).encode()))
    return ledger.judge()


GIVEN, TAKEN = (0, "t1", -10, OPENING - 10), (1, "t1", 10, OPENING + 10)


def test_whole_transfers_in_any_order_of_their_halves_are_right():
    assert books(GIVEN, TAKEN, (1, "t2", -5, OPENING + 5), (2, "t2", 5, OPENING + 5)) == []
    assert books(TAKEN, GIVEN) == []


def test_a_transfer_of_which_one_half_was_seen_is_told_and_so_is_the_sum():
    half, total = books(GIVEN)
    assert "the other half is missing" in half
    assert total == "there are 2,990 in all accounts, and 3,000 were"


def test_a_half_that_comes_twice_is_told():
    assert any("its transfer was seen before" in what for what in books(GIVEN, TAKEN, GIVEN))
    assert any("its transfer was seen before" in what for what in books(GIVEN, GIVEN))


def test_a_lost_transfer_is_told_by_the_balance_after_the_next():
    lost = [(0, "t2", -1, OPENING - 11), (1, "t2", 1, OPENING + 11)]
    assert any("a leg before it is lost or doubled" in what for what in books(*lost))


def test_halves_of_different_amounts_are_told():
    assert any("are no transfer" in what for what in books(GIVEN, (1, "t1", 9, OPENING + 9)))
