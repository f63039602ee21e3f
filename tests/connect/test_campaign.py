"""The verdict of `make connect-campaign` finds differences."""

import pytest
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
