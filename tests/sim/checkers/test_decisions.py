"""The judge of decisions finds what a coordinator had not decided when it was written or shown."""

from __future__ import annotations

import pytest
from planted import A, B, C
from planted_transactions import (
    ABORT,
    BATCHES,
    COMMIT,
    LOG,
    SCAN,
    SOURCE,
    marker,
    scanned,
    stored,
)

from ottla.kernel.ids import TopicPartition
from ottla.sim.checkers.decisions import check_decisions
from ottla.sim.checkers.history import Event, Healed, History, LogKey, Traits
from ottla.sim.checkers.transaction_history import (
    Appended,
    OffsetsPut,
    OffsetsRead,
    Owned,
    Stepped,
    TakenOver,
    TransactionRead,
)
from ottla.sim.drawing import draw_plan
from ottla.sim.world import World
from ottla.transactions.values import Transaction, TransactionState

PLACE = TopicPartition("ledger", 0)
SECOND = 1_000_000


def step(at_us: int, state: TransactionState, epoch: int, *places: TopicPartition, started_ms: int = 5) -> Stepped:
    return Stepped(at_us, "t0", Transaction(7, epoch, state=state, partitions=frozenset(places), started_ms=started_ms))


def appended(at_us: int, base: int, epoch: int, *, marks: bool | None = None) -> Appended:
    return Appended(at_us, LOG, base, 7, epoch, marks)


def read(at_us: int, *records: tuple[int, bytes]) -> TransactionRead:
    return TransactionRead(at_us, "r", True, LOG, 0, 3, records)


def taken_over(epoch: int, reached: int, producer: int = 7) -> TakenOver:
    return TakenOver(20, "t0", producer, epoch, ((LOG, reached),))


EMPTY = step(1, TransactionState.EMPTY, 0)
ADDED = step(2, TransactionState.ONGOING, 0, PLACE)
COMMITS = step(4, TransactionState.PREPARE_COMMIT, 1, PLACE)
COMMITTED = step(6, TransactionState.COMPLETE_COMMIT, 1)
ADDED_AGAIN = step(7, TransactionState.ONGOING, 1, PLACE)
ABORTS = step(9, TransactionState.PREPARE_ABORT, 2, PLACE)
ABORTED = step(11, TransactionState.COMPLETE_ABORT, 2)
FIRST = (EMPTY, ADDED, appended(3, 0, 0), COMMITS, appended(5, 2, 1, marks=True), COMMITTED)
SECOND_ONE = (ADDED_AGAIN, appended(8, 3, 1), ABORTS, appended(10, 4, 2, marks=False), ABORTED)
BOTH = (*COMMIT, *ABORT, *FIRST, *SECOND_ONE, SCAN)
MOVED = OffsetsPut(2, "t0.1:1", "g", SOURCE, 0, 4)


def kinds(*events: Event) -> set[str]:
    history = History()
    history.traits[LOG] = Traits("ledger")
    for event in events:
        history.add(event)
    return {anomaly.kind for anomaly in check_decisions(history)}


def without(*gone: Event) -> tuple[Event, ...]:
    return tuple(event for event in BOTH if event not in gone)


def test_transactions_that_were_decided_before_their_markers_are_sound():
    assert kinds(*BOTH, read(12, (0, A), (1, B)), MOVED, OffsetsRead(11, 12, "g", SOURCE, 4)) == set()


def test_a_marker_may_be_there_twice():
    again = scanned(*BATCHES[:2], marker(3, commits=True), visible=((0, A), (1, B)))
    assert kinds(*COMMIT, *FIRST, appended(12, 3, 1, marks=True), again) == set()


def test_a_partition_without_records_has_its_marker_too():
    bare = scanned(marker(0, commits=True), visible=())
    events = (EMPTY, ADDED, COMMITS, appended(5, 0, 1, marks=True), COMMITTED)
    assert kinds(*events, bare) == set()
    assert kinds(*events, scanned(stored(0, C, producer=-1), visible=((0, C),))) == {"missing-marker"}


def test_a_batch_may_reach_a_log_before_its_producer_is_replaced():
    assert kinds(*BOTH, taken_over(3, reached=4)) == set()
    assert kinds(*BOTH, Owned(0, "t0.0", "t0", 7, 1, True), taken_over(0, reached=4, producer=9)) == set()


def test_transactions_of_one_epoch_stand_in_a_log_in_the_order_of_their_decisions():
    """With version 1 of the protocol neither ends raise the epoch."""
    adds = [step(at, TransactionState.ONGOING, 0, PLACE) for at in (2, 12)]
    commits, aborts = (
        step(4, TransactionState.PREPARE_COMMIT, 0, PLACE),
        step(14, TransactionState.PREPARE_ABORT, 0, PLACE),
    )
    steps = (EMPTY, adds[0], commits, step(6, TransactionState.COMPLETE_COMMIT, 0))
    notes = (appended(3, 0, 0), appended(5, 2, 0, marks=True))
    later = (adds[1], aborts, step(16, TransactionState.COMPLETE_ABORT, 0))
    ordered = [*steps[:2], notes[0], commits, notes[1], steps[3], adds[1], aborts, appended(15, 4, 0, marks=False)]
    batches = (stored(0, A, B), marker(2, commits=True, epoch=0), stored(3, C, sequence=2))
    right = scanned(*batches, marker(4, commits=False, epoch=0), visible=((0, A), (1, B)))
    assert kinds(*ordered, later[2], right) == set()
    swapped = scanned(
        stored(0, A, B),
        marker(2, commits=False, epoch=0),
        stored(3, C, sequence=2),
        marker(4, commits=True, epoch=0),
        visible=((3, C),),
    )
    assert kinds(*ordered, later[2], swapped) == {"undecided-transaction"}


@pytest.mark.parametrize(
    ("kind", "events"),
    [
        ("impossible-step", without(ADDED)),
        ("impossible-step", without(COMMITTED)),
        ("never-added", (*COMMIT, EMPTY, appended(2, 0, 0), ADDED, *FIRST[3:], SCAN)),
        ("never-added", (*COMMIT, *FIRST[:2], Appended(3, LogKey("ab", 1), 0, 7, 0, None), *FIRST[3:], SCAN)),
        ("undecided-marker", (*FIRST[:3], appended(4, 2, 1, marks=True), *FIRST[3:], SCAN)),
        ("undecided-marker", (*FIRST[:4], appended(5, 2, 1, marks=False), *FIRST[4:], SCAN)),
        ("ended-unmarked", without(FIRST[4])),
        ("ended-unmarked", (*FIRST[:4], COMMITTED, FIRST[4], SCAN)),
        ("undecided-transaction", (*FIRST, SCAN)),
        (
            "undecided-transaction",
            (*BOTH[:-1], SCAN._replace(batches=(*BATCHES[:3], marker(4, commits=True, epoch=2)))),
        ),
        (
            "undecided-transaction",
            (*FIRST, scanned(stored(0, A), marker(1, commits=True), stored(2, B), marker(3, commits=True), visible=())),
        ),
        (
            "undecided-transaction",
            (*FIRST, scanned(stored(0, A), stored(1, B, epoch=1), marker(2, commits=True), visible=())),
        ),
        ("missing-marker", (*BOTH[:-1], SCAN._replace(batches=BATCHES[:3]))),
        ("zombie-write", (*BOTH, taken_over(2, reached=3))),
        ("zombie-write", (*BOTH, Owned(0, "t0.0", "t0", 7, 1, True), taken_over(0, reached=0, producer=9))),
        ("early-read", (*BOTH, read(3, (0, A)))),
        ("early-offset", (*BOTH, MOVED, OffsetsRead(2, 3, "g", SOURCE, 4))),
        ("late", (Healed(3, SECOND), *BOTH[:-4], step(30 * SECOND, TransactionState.PREPARE_ABORT, 2, PLACE), SCAN)),
        ("late", (Healed(3, SECOND), *BOTH[:-2], step(3 * SECOND, TransactionState.COMPLETE_ABORT, 2), SCAN)),
    ],
)
def test_each_thing_that_is_wrong_is_called_by_its_name(kind: str, events: tuple[Event, ...]):
    assert kind in kinds(*events)


def test_a_world_with_transactions_notes_what_its_coordinators_and_leaders_did():
    plan = next(plan for plan in (draw_plan(seed, 3) for seed in range(100)) if plan.transactions is not None)
    world = World(plan)
    world.run()
    for kind in (Stepped, Appended, TakenOver):
        assert any(isinstance(event, kind) for event in world.history.events)
