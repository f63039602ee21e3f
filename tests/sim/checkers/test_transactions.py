"""The judges of transactions find each kind of anomaly: a sound history with one fault."""

from __future__ import annotations

import pytest
from planted import A, B, C, D
from planted_transactions import (
    ABORT,
    ABORTED,
    ANSWERED,
    BATCHES,
    COMMIT,
    COMMITTED,
    LOG,
    OTHER,
    SCAN,
    SOUND,
    SOURCE,
    SUCCESSOR,
    marker,
    owned,
    put,
    read,
    scanned,
    stable,
    stored,
)

from ottla.sim.checkers.consumed import check_consumed
from ottla.sim.checkers.copies import check_copies
from ottla.sim.checkers.history import Acknowledged, DeleteAsked, Event, History, Scanned, Sent, Traits
from ottla.sim.checkers.transaction_history import (
    AllEnded,
    EndAsked,
    EndTxnAnswered,
    OffsetsPut,
    OffsetsRead,
    OffsetsUnstable,
    PutDone,
)
from ottla.sim.checkers.transactions import check_transactions


def kinds(*events: Event) -> set[str]:
    history = History()
    for log in (LOG, OTHER, SOURCE):
        history.traits[log] = Traits("t")
    for event in events:
        history.add(event)
    return {anomaly.kind for judge in (check_transactions, check_consumed) for anomaly in judge(history)}


def test_a_sound_history_has_no_anomalies():
    reads = (
        read(0, 5, (0, A), (1, B)),
        read(0, 5, (0, A), (1, B), (3, C), committed=False),
        stable(3, 4),
        stable(5, 5),
    )
    assert kinds(*SOUND, *reads) == set()


def test_a_transaction_whose_end_nobody_was_told_of_may_be_committed_or_not():
    assert kinds(*COMMIT, scanned(*BATCHES[:2], visible=((0, A), (1, B)))) == set()
    assert kinds(*COMMIT, scanned(stored(0, A, B), marker(2, commits=False), visible=())) == set()


def test_a_record_outside_of_transactions_counts_at_once():
    events = (Sent(1, "b", LOG, 1, (D,), -1, False), Acknowledged(2, "b", LOG, 1, 0), read(0, 1, (0, D)))
    assert kinds(*events, scanned(stored(0, D, producer=-1), visible=((0, D),))) == set()


def test_what_a_producer_sent_before_it_was_fenced_may_be_there():
    fenced = (
        owned(0),
        put(COMMITTED, A),
        owned(1, SUCCESSOR),
        scanned(stored(0, A), marker(1, commits=False), visible=()),
    )
    assert kinds(*fenced) == set()


@pytest.mark.parametrize(
    ("kind", "events"),
    [
        ("aborted-read", (*SOUND, read(3, 5, (3, C)))),
        ("aborted-read", (*COMMIT, *ABORT, scanned(*BATCHES, visible=((0, A), (1, B), (3, C))))),
        ("lost-read", (*SOUND, read(0, 5, (0, A), (1, B), (2, D)))),
        ("lost-read", (*SOUND, read(3, 5, (3, D), committed=False))),
        ("skipped-read", (*SOUND, read(0, 5, (0, A)))),
        ("skipped-read", (*SOUND, read(0, 5, (0, A), (1, B), committed=False))),
        ("skipped-read", (*COMMIT, *ABORT, scanned(*BATCHES, visible=((0, A),)))),
        (
            "early-read",
            (
                owned(0),
                put(COMMITTED, A),
                read(0, 2, (0, A)),
                EndAsked(60, COMMITTED, True),
                scanned(stored(0, A), marker(1, commits=True), visible=((0, A),)),
            ),
        ),
        ("duplicate", (*COMMIT, scanned(*BATCHES[:2], stored(3, A, epoch=1), visible=((0, A), (1, B))))),
        ("sequence-twice", (*COMMIT, scanned(stored(0, A, B), stored(2, D), marker(3, commits=True), visible=()))),
        ("epoch-went-back", (*COMMIT, scanned(*BATCHES[:2], stored(3, D), visible=()))),
        ("unstable-at-end", (SCAN._replace(stable=3),)),
        ("open-at-end", (*COMMIT, scanned(stored(0, A, B), visible=()))),
        ("lost-transaction", (*COMMIT, ANSWERED[0], scanned(stored(0, A, B), marker(2, commits=False), visible=()))),
        (
            "lost-transaction",
            (put(COMMITTED, A), EndAsked(3, COMMITTED, True), ANSWERED[0], scanned(stored(0, D), visible=())),
        ),
        (
            "uninvited-commit",
            (owned(0), put(COMMITTED, A), scanned(stored(0, A), marker(1, commits=True), visible=((0, A),))),
        ),
        ("uninvited-commit", (*ABORT, scanned(stored(3, C), marker(4, commits=True), visible=((3, C),)))),
        (
            "torn-transaction",
            (
                *COMMIT,
                put(COMMITTED, D, log=OTHER),
                scanned(*BATCHES[:2], visible=((0, A), (1, B))),
                scanned(stored(0, D), marker(1, commits=False), visible=(), log=OTHER),
            ),
        ),
        (
            "torn-transaction",
            (
                *COMMIT,
                put(COMMITTED, D, log=OTHER),
                scanned(*BATCHES[:2], visible=((0, A), (1, B))),
                scanned(marker(0, commits=True), visible=(), log=OTHER),
            ),
        ),
        ("lost-write", (*COMMIT, scanned(stored(0, C, D), marker(2, commits=False), visible=()))),
        ("moved", (*COMMIT, scanned(stored(0, B, A), marker(2, commits=True), visible=((0, B), (1, A))))),
        ("stable-beyond-watermark", (*SOUND, stable(5, 4))),
        ("stable-went-back", (*SOUND, stable(5, 5), stable(3, 5))),
        ("stable-past-open", (*SOUND, stable(4, 4))),
        ("held-back", (*SOUND, stable(3, 5))),
        ("stable-past-open", (*COMMIT, scanned(stored(0, A, B), visible=()), stable(1, 9))),
        ("shared-epoch", (owned(3), owned(3, SUCCESSOR), SCAN)),
        (
            "zombie-write",
            (
                owned(0),
                owned(1, SUCCESSOR),
                put(COMMITTED, A),
                scanned(stored(0, A), marker(1, commits=False), visible=()),
            ),
        ),
    ],
)
def test_each_thing_that_is_wrong_is_called_by_its_name(kind: str, events: tuple[Event, ...]):
    assert kind in kinds(*events)


def test_a_new_leader_may_know_of_a_lower_stable_offset():
    assert "stable-went-back" not in kinds(*SOUND, stable(5, 5), stable(3, 3, epoch=2))


# --- consumed ---


def moved(transaction: str, before: int, offset: int) -> OffsetsPut:
    return OffsetsPut(2, transaction, "g", SOURCE, before, offset)


def told(offset: int, asked_us: int = 90) -> OffsetsRead:
    return OffsetsRead(asked_us, asked_us + 1, "g", SOURCE, offset)


def unstable(asked_us: int) -> OffsetsUnstable:
    return OffsetsUnstable(asked_us, asked_us + 1, "g", SOURCE)


PUT_NEXT = PutDone(8, "t0.1:3", LOG, (C,), 3)
NEXT = (owned(1), put("t0.1:3", C, at_us=5), EndAsked(6, "t0.1:3", True), EndTxnAnswered(7, "t0.1:3", True))
BOTH = scanned(*BATCHES[:3], marker(4, commits=True, epoch=2), visible=((0, A), (1, B), (3, C)))


def test_a_chain_of_steps_is_sound():
    steps = (*COMMIT, moved(COMMITTED, 0, 4), told(4, 5), *NEXT, moved("t0.1:3", 4, 6), told(6))
    assert kinds(*steps, BOTH) == set()


def test_a_step_that_was_aborted_is_taken_again():
    steps = (*COMMIT, moved(COMMITTED, 0, 4), *ABORT, moved(ABORTED, 4, 6), told(4), SCAN)
    assert kinds(*steps) == set()


@pytest.mark.parametrize(
    "events",
    [
        (*COMMIT, moved(COMMITTED, 0, 4), unstable(5), ANSWERED[0], unstable(8), SCAN),
        (*COMMIT, moved(COMMITTED, 0, 4), PutDone(6, COMMITTED, LOG, (A, B), 0), unstable(8), SCAN),
        (*COMMIT, moved(COMMITTED, 0, 4), *NEXT, PUT_NEXT, moved("t0.1:3", 4, 6), unstable(9), BOTH),
        (*COMMIT, owned(1, at_us=1), moved(COMMITTED, 0, 4), owned(1, SUCCESSOR, at_us=6), unstable(9), SCAN),
    ],
    ids=["until its end is complete", "a late answer", "the next one's", "no newer epoch"],
)
def test_an_offset_may_be_unstable_while_a_transaction_is_not_complete(events: tuple[Event, ...]):
    assert "unstable-for-nothing" not in kinds(*events)


# --- copies ---

COPY, AGAIN = b"t0.1:1:0@3", b"t0.1:3:0@3"
COPIED = (owned(0), put(COMMITTED, COPY), EndAsked(3, COMMITTED, True), moved(COMMITTED, 0, 4))
ONCE = scanned(stored(0, COPY), marker(1, commits=True), visible=((0, COPY),))
TWICE = scanned(
    stored(0, COPY),
    marker(1, commits=True),
    stored(2, AGAIN, epoch=1),
    marker(3, commits=True, epoch=2),
    visible=((0, COPY), (2, AGAIN)),
)
ABORTED_FIRST = TWICE._replace(batches=(TWICE.batches[0], marker(1, commits=False), *TWICE.batches[2:]))
AGAIN_COPIED = (owned(1), put("t0.1:3", AGAIN), EndAsked(6, "t0.1:3", True), moved("t0.1:3", 0, 4))


def copies(*events: Event) -> set[str]:
    history = History()
    for event in events:
        history.add(event)
    return {anomaly.kind for anomaly in check_copies(history)}


def test_each_input_copied_once_is_sound():
    source = Scanned(9, SOURCE, 3, 5, ((3, A), (4, B)))
    assert copies(*COPIED, told(4), source, ONCE) == set()
    assert copies(*COPIED, *AGAIN_COPIED, told(4), source, ABORTED_FIRST) == set()


def test_an_input_that_two_transactions_copied_is_found():
    assert copies(*COPIED, *AGAIN_COPIED, told(4), TWICE) == {"copied-twice"}


PASSED_OVER = Scanned(9, SOURCE, 2, 5, ((2, A), (3, B), (4, C)))


def test_an_input_that_was_passed_over_is_found():
    assert copies(*COPIED, told(4), PASSED_OVER, ONCE) == {"never-copied"}
    assert copies(DeleteAsked(1, SOURCE, 2), *COPIED, told(4), PASSED_OVER, ONCE) == {"never-copied"}


def test_an_input_whose_deletion_was_asked_for_may_be_passed_over():
    """World 221802: the leader that had begun the deletion died, and the next one still had the records."""
    assert copies(DeleteAsked(1, SOURCE, 3), *COPIED, told(4), PASSED_OVER, ONCE) == set()


@pytest.mark.parametrize(
    ("kind", "events"),
    [
        ("lost-offset", (*COMMIT, ANSWERED[0], moved(COMMITTED, 0, 4), told(-1), told(4), SCAN)),
        ("lost-offset", (*COMMIT, moved(COMMITTED, 0, 4), told(-1), SCAN)),
        ("uncommitted-offset", (*COMMIT, *ABORT, moved(ABORTED, 0, 4), told(4), SCAN)),
        ("uncommitted-offset", (*COMMIT, moved(COMMITTED, 0, 4), told(3), SCAN)),
        ("uncommitted-offset", (*COMMIT, moved(COMMITTED, 0, 4), told(4, 1), SCAN)),
        ("consumed-twice", (*COMMIT, moved(COMMITTED, 0, 4), *NEXT, moved("t0.1:3", 3, 6), BOTH)),
        ("skipped-input", (*COMMIT, moved(COMMITTED, 0, 4), *NEXT, moved("t0.1:3", 5, 6), BOTH)),
        ("unstable-for-nothing", (*COMMIT, unstable(5), SCAN)),
        ("unstable-for-nothing", (*COMMIT, moved(COMMITTED, 0, 4), *NEXT, PUT_NEXT, unstable(9), BOTH)),
        ("unstable-for-nothing", (*COMMIT, moved(COMMITTED, 0, 4), owned(1, SUCCESSOR, at_us=6), unstable(9), SCAN)),
        ("unstable-for-nothing", (*COMMIT, moved(COMMITTED, 0, 4), AllEnded(8), unstable(9), SCAN)),
    ],
)
def test_each_thing_that_is_wrong_with_offsets_is_called_by_its_name(kind: str, events: tuple[Event, ...]):
    assert kind in kinds(*events)
