"""The judge of the campaign notices every kind of difference."""

import pytest
from tests.spark.campaign.verdict import differences

GIVEN = [(b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"b", b"4")]
RIGHT = [(key, b"seen " + value) for key, value in GIVEN]


def test_the_same_rows_are_no_difference_whatever_the_order_of_keys():
    assert differences(GIVEN, RIGHT) == []
    assert differences(GIVEN, [RIGHT[1], RIGHT[3], RIGHT[0], RIGHT[2]]) == []


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (RIGHT[:3], "1 rows missing"),
        ([*RIGHT, RIGHT[0]], "1 rows there once more than given"),
        ([*RIGHT[:3], (b"b", b"seen 5")], "1 rows missing"),
        ([*RIGHT[:3], RIGHT[0]], "1 rows there once more than given"),
        ([RIGHT[2], RIGHT[1], RIGHT[0], RIGHT[3]], "1 keys have their rows in another order"),
        ([], "4 rows missing"),
    ],
)
def test_every_difference_is_told(found, reason):
    assert any(reason in said for said in differences(GIVEN, found))
