import pytest

from ottla.broker.waiting import Deadlines
from ottla.sim.loop import SimLoop


def test_a_deadline_is_not_held_up_by_a_later_one_that_was_set_while_ringing():
    loop = SimLoop(1)
    deadlines = Deadlines(loop)
    rung: list[str] = []
    deadlines.at(10, lambda: rung.append("soon"))
    deadlines.at(5, lambda: deadlines.at(100_000, lambda: rung.append("late")))
    loop.run_for(10)
    assert rung == ["soon"]


def test_a_deadline_set_while_ringing_that_is_due_already_rings_at_once():
    loop = SimLoop(1)
    deadlines = Deadlines(loop)
    rung: list[str] = []
    deadlines.at(5, lambda: deadlines.at(5, lambda: rung.append("again")))
    loop.run_for(5)
    assert rung == ["again"]


def test_a_cancelled_deadline_does_not_ring():
    loop = SimLoop(1)
    deadlines = Deadlines(loop)
    rung: list[str] = []
    deadlines.at(5, lambda: rung.append("cancelled")).cancel()
    deadlines.at(6, lambda: rung.append("kept"))
    loop.run_for(10)
    assert rung == ["kept"]


def test_deadlines_that_were_cancelled_do_not_pile_up():
    loop = SimLoop(1)
    deadlines = Deadlines(loop)
    rung: list[int] = []
    for number in range(20_000):
        deadline = deadlines.at((1 << 31) - number, lambda: rung.append(-1))
        if number % 5000 == 0:
            deadlines.at(number, lambda number=number: rung.append(number))
        deadline.cancel()
    assert len(deadlines) < 5000
    loop.run_for(20_000)
    assert rung == [0, 5000, 10_000, 15_000]


def test_a_callback_that_fails_holds_up_no_other():
    loop = SimLoop(1)
    deadlines = Deadlines(loop)
    rung: list[str] = []

    def fails() -> None:
        raise ZeroDivisionError

    deadlines.at(5, fails)
    deadlines.at(5, lambda: rung.append("same time"))
    deadlines.at(50, lambda: rung.append("later"))
    with pytest.raises(ZeroDivisionError):
        loop.run_for(10)
    loop.run_for(100)
    assert rung == ["same time", "later"]
