"""Tests of edits of running functions: an edit that would not take effect is refused."""

from __future__ import annotations

import pytest
from tests.sim.edited import make, run_edited

from ottla.sim.peek import first_offset, newest_epoch

WHERE = "sim/peek.py"


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('_SUFFIX = ".log"', '_SUFFIX = ".txt"', "an edit must lie within functions"),
        ("    at, size = 0, len(body)\n", "    at, size = 0, len(body)  # as before\n", "the edits change nothing"),
        ("no such line", "pass", "is written otherwise now: mend the edit"),
        ("def checkpointed(", "def checkpoint_of(", "an edit must lie within functions"),
    ],
)
def test_an_edit_that_takes_no_effect_is_refused(old: str, new: str, why: str):
    with pytest.raises(AssertionError, match=why):
        make([(WHERE, old, new)])


def test_an_edit_holds_in_its_own_process_alone():
    edit = (WHERE, "    return min(_segments(disk, directory, durable=True), default=0)", "    return -7")
    assert run_edited([edit], first_offset, None, "") == -7
    with pytest.raises(AttributeError):
        first_offset(None, "")  # type: ignore[arg-type]


def test_a_fault_of_the_work_is_told():
    edit = (WHERE, "    return min(_segments(disk, directory, durable=True), default=0)", "    return -7")
    with pytest.raises(AssertionError, match="AttributeError"):
        run_edited([edit], newest_epoch, None, "")
