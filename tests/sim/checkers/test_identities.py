"""The judge of producer ids finds an id that was given twice."""

from __future__ import annotations

import pytest
from planted_transactions import SUCCESSOR, owned

from ottla.sim.checkers.history import Event, History
from ottla.sim.checkers.identities import check_identities
from ottla.sim.checkers.transaction_history import IdGiven

OTHER = owned(0)._replace(transactional_id="t1", producer="t1.1")


def kinds(*events: Event) -> set[str]:
    history = History()
    for event in events:
        history.add(event)
    return {anomaly.kind for anomaly in check_identities(history)}


def test_one_transactional_id_keeps_its_producer_id_through_all_epochs():
    assert kinds(owned(0), owned(1, SUCCESSOR), OTHER._replace(producer_id=8), IdGiven(1, "i0", 9)) == set()


@pytest.mark.parametrize(
    "events",
    [
        (owned(0), OTHER),
        (owned(0), IdGiven(1, "i0", 7)),
        (IdGiven(1, "i0", 9), IdGiven(2, "i1", 9)),
    ],
    ids=["two transactional ids", "with and without one", "two producers"],
)
def test_an_id_of_two_owners_is_found(events: tuple[Event, ...]):
    assert kinds(*events) == {"shared-id"}
