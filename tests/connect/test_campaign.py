"""The verdict of `make connect-campaign` finds differences."""

from collections import Counter

import pytest
from tests.connect.campaign import others_that_noticed
from tests.connect.scenes import compared


@pytest.mark.parametrize(
    ("found", "exact", "said"),
    [
        (["a", "b"], True, []),
        (["b", "a", "a"], False, []),
        (["a"], False, ["1 records are missing, such as ['b']"]),
        (["a", "b", "c"], False, ["1 records are strange, such as ['c']"]),
        (["a", "b", "a"], True, ["1 records are more than once, such as ['a']"]),
    ],
)
def test_a_record_that_is_missing_or_strange_or_there_twice_is_a_difference(found, exact, said):
    assert compared(["a", "b"], found, exact=exact) == said


def test_a_neighbour_that_is_restarted_has_noticed_and_the_broken_one_has_not():
    before, after = Counter({"c1-0": 2, "c2-0": 1}), Counter({"c1-0": 5, "c2-0": 2, "c3-0": 0})
    assert others_that_noticed(before, after, 1) == ["c2-0 was restarted 1 times while c1 was broken"]
    assert others_that_noticed(before, before, 1) == []
