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
