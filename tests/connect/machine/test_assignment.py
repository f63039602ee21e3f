"""Work is spread evenly, and moves in two steps."""

from ottla.client.consume.group_protocol import MemberSubscription
from ottla.connect.machine.assignment import OWNER, Unit, assign

WORK = [Unit("a", OWNER), Unit("b", OWNER), *(Unit("a", task) for task in range(4))]


def holding(*units: Unit, generation: int = 1) -> MemberSubscription:
    return MemberSubscription((), None, units, generation)


def test_work_that_nobody_holds_is_spread_evenly_by_kind():
    assigned = assign(WORK, {"x": holding(), "y": holding()})
    for member in ("x", "y"):
        assert sorted(unit.partition == OWNER for unit in assigned[member]) == [False, False, True]


def test_a_new_worker_gets_work_only_when_its_holder_let_go_of_it():
    first = assign(WORK, {"x": holding(*WORK), "y": holding()})
    assert len(first["x"]) == 3
    assert first["y"] == []
    second = assign(WORK, {"x": holding(*first["x"]), "y": holding()})
    assert second["x"] == first["x"]
    assert sorted(second["x"] + second["y"]) == sorted(WORK)


def test_the_work_of_a_worker_that_is_gone_goes_to_the_others():
    assigned = assign(WORK, {"y": holding(*WORK[:1])})
    assert sorted(assigned["y"]) == sorted(WORK)


def test_an_even_spread_stays_as_it_is():
    before = assign(WORK, {"x": holding(), "y": holding()})
    again = assign(WORK, {member: holding(*units) for member, units in before.items()})
    assert {member: sorted(units) for member, units in again.items()} == {
        member: sorted(units) for member, units in before.items()
    }


def test_work_that_two_workers_claim_stays_with_the_later_generation():
    assigned = assign(
        [Unit("a", 0)], {"x": holding(Unit("a", 0), generation=1), "y": holding(Unit("a", 0), generation=2)}
    )
    assert assigned == {"x": [], "y": [Unit("a", 0)]}


def test_work_that_is_no_longer_wanted_goes_to_nobody():
    assert assign([], {"x": holding(Unit("a", 0))}) == {"x": []}
