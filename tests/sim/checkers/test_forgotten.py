"""A batch that comes twice is an anomaly, but where its first copy was gone and a replica made anew could not know."""

from __future__ import annotations

import pytest
from planted import LOG, A, B, acknowledged, polled, scanned, sent

from ottla.sim.checkers.forgotten import without_forgotten
from ottla.sim.checkers.history import Bounds, Disturbed, Event, History, Traits
from ottla.sim.checkers.verdict import check

REPLACED = Disturbed(1, "rolled-back directory")
GONE = Bounds(2, "r", LOG, log_start=1, high_watermark=1)
TWICE: tuple[Event, ...] = (
    sent(1, A),
    polled(0, A),
    REPLACED,
    GONE,
    acknowledged(1, 1),
    sent(2, B),
    acknowledged(2, 2),
    polled(1, A, B),
    scanned(1, A, B),
)


def kinds_of(*events: Event, retained: bool = False) -> set[str]:
    history = History()
    history.traits[LOG] = Traits("short", retained=retained)
    for event in events:
        history.add(event)
    return {anomaly.kind for anomaly in check(history)}


def test_a_batch_whose_first_copy_was_gone_may_come_again_to_a_replica_made_anew():
    assert kinds_of(*TWICE) == set()


@pytest.mark.parametrize(
    "events",
    [
        [event for event in TWICE if event != REPLACED],
        [event for event in TWICE if event != GONE],
        [event._replace(log_start=0) if isinstance(event, Bounds) else event for event in TWICE],
        [event._replace(high_watermark=2) if isinstance(event, Bounds) else event for event in TWICE],
    ],
    ids=["no replica made anew", "nothing deleted", "the first still there", "the second there already"],
)
def test_else_it_is_a_duplicate(events):
    assert "duplicate" in kinds_of(*events)


def test_where_nothing_but_a_wish_deletes_it_is_a_duplicate():
    assert "duplicate" in kinds_of(*TWICE, retained=True)


def test_a_history_without_such_a_batch_is_the_same_one():
    history = History()
    assert without_forgotten(history) is history
