"""Each judge finds its anomaly: a sound history with one fault for each kind."""

from __future__ import annotations

import pytest
from planted import ALL, LEADER, LOG, SOUND, A, B, C, D, acknowledged, polled, scanned, sent

from ottla.sim.checkers.history import (
    Alive,
    BatchRefused,
    Bounds,
    CommitAsked,
    CommitDone,
    CommitSeen,
    DeleteAsked,
    DeleteDone,
    Event,
    Failed,
    Healed,
    History,
    LogKey,
    OutOfRange,
    Scanned,
    Sent,
    Traits,
    TransactionsEnded,
    Unreadable,
)
from ottla.sim.checkers.verdict import check


def bounds(start: int, watermark: int, broker: int = 1, life: int = 0) -> Bounds:
    return Bounds(0, "r", LOG, start, watermark, broker=broker, life=life)


def kinds(*events: Event, traits: Traits | None = None) -> set[str]:
    history = History()
    history.traits[LOG] = traits or Traits("t")
    for event in events:
        history.add(event)
    return {anomaly.kind for anomaly in check(history) if ":" not in anomaly.kind}


def test_a_sound_history_has_no_anomalies():
    assert kinds(*SOUND, bounds(0, 2), polled(0, A, B), bounds(0, 3), polled(2, C), scanned(0, A, B, C)) == set()


def test_what_was_never_answered_may_be_there_or_not():
    assert kinds(*SOUND, sent(3, D), scanned(0, A, B, C)) == set()
    assert kinds(*SOUND, sent(3, D), scanned(0, A, B, C, D)) == set()


def test_acks_1_promises_nothing_after_a_power_cut():
    assert kinds(sent(1, A, acks=LEADER), acknowledged(1, 0), sent(2, B), acknowledged(2, 0), scanned(0, B)) == set()


def test_what_delete_records_took_is_not_lost():
    assert kinds(*SOUND, DeleteAsked(5, LOG, 2), DeleteDone(5, LOG, 2), scanned(2, C)) == set()


def test_a_cached_topic_may_lose_and_use_offsets_again():
    events = (sent(1, A), acknowledged(1, 0), polled(0, A), sent(2, B), acknowledged(2, 0), scanned(0, B))
    assert kinds(*events, traits=Traits("t", durable=False)) == set()


def test_who_follows_may_know_of_a_higher_watermark_than_a_leader_that_is_new():
    assert kinds(*SOUND, bounds(0, 3, broker=1), bounds(0, 2, broker=2), scanned(0, A, B, C)) == set()


@pytest.mark.parametrize(
    ("kind", "events"),
    [
        ("lost-write", (*SOUND, scanned(0, A, B))),
        ("lost-read", (*SOUND, sent(3, D), polled(3, D), scanned(0, A, B, C))),
        ("inconsistent-offset", (*SOUND, sent(3, D), polled(2, C), polled(2, D))),
        ("duplicate", (*SOUND, scanned(0, A, B, C, A))),
        ("moved", (sent(1, A), acknowledged(1, 5), polled(0, A))),
        ("aborted-read", (sent(1, A), BatchRefused(1, "p", LOG, 1, 10), polled(0, A))),
        ("phantom", (polled(0, b"nobody's"),)),
        ("phantom", (Sent(0, "p", LogKey("other", 0), 1, (A,), ALL, True), polled(0, A))),
        ("unreadable", (Unreadable(0, "r", LOG, "the CRC does not hold"),)),
        ("nonmonotonic-send", (sent(1, A), acknowledged(1, 7), sent(2, B), acknowledged(2, 7))),
        ("poll-skip", (*SOUND, polled(1, B, asked=0))),
        ("nonmonotonic-poll", (*SOUND, polled(0, A, asked=1))),
        ("poll-skip", (*SOUND, Scanned(9, LOG, 0, 4, ((0, A), (1, B), (2, C))))),
        ("vanished", (OutOfRange(0, "r", LOG, 3),)),
        ("watermark-went-back", (bounds(0, 3), bounds(0, 2))),
        ("watermark-went-back", (bounds(0, 3), bounds(0, 1, broker=2), bounds(0, 2))),
        ("watermark-went-back", (bounds(0, 3), bounds(0, 2, life=1))),
        ("start-above-watermark", (bounds(0, 3), DeleteAsked(0, LOG, 5), bounds(5, 4))),
        (
            "start-went-back",
            (DeleteAsked(0, LOG, 2), DeleteDone(0, LOG, 2), bounds(2, 3), bounds(1, 3)),
        ),
        ("deleted-too-much", (DeleteAsked(0, LOG, 2), bounds(3, 5))),
        ("deletion-undone", (*SOUND, DeleteAsked(0, LOG, 2), DeleteDone(0, LOG, 2), scanned(1, B, C))),
        (
            "lost-commit",
            (
                CommitAsked(1, "g", LOG, 3),
                CommitDone(1, "g", LOG, 3),
                CommitAsked(2, "g", LOG, 5),
                CommitDone(2, "g", LOG, 5),
                CommitSeen(3, 3, "g", LOG, 3),
            ),
        ),
        ("lost-commit", (CommitAsked(1, "g", LOG, 3), CommitDone(1, "g", LOG, 3), CommitSeen(3, 3, "g", LOG, -1))),
        ("phantom-commit", (CommitAsked(1, "g", LOG, 3), CommitSeen(3, 3, "g", LOG, 4))),
        ("failed", (Failed(0, "a traceback"),)),
        ("stuck", (Failed(0, "never came to its end", "stuck"),)),
        ("late", (Healed(0, 10), Alive(11, LOG), scanned(0))),
        ("late", (Healed(0, 10), TransactionsEnded(11, LOG), scanned(0))),
        ("never-read", (Healed(0, 10), Alive(5, LOG))),
    ],
)
def test_each_anomaly_is_found_and_no_other(kind: str, events: tuple[Event, ...]):
    assert kinds(*events) == {kind}


def test_who_looks_while_it_is_committed_may_be_told_either():
    done = (CommitAsked(1, "g", LOG, 3), CommitDone(1, "g", LOG, 3), CommitAsked(2, "g", LOG, 5))
    for offset in (3, 5):
        assert kinds(*done, CommitDone(8, "g", LOG, 5), CommitSeen(7, 9, "g", LOG, offset)) == set()
    assert kinds(*done, CommitDone(8, "g", LOG, 5), CommitSeen(8, 9, "g", LOG, 3)) == {"lost-commit"}


def test_a_commit_without_an_answer_may_have_happened():
    done = (CommitAsked(1, "g", LOG, 3), CommitDone(1, "g", LOG, 3), CommitAsked(2, "g", LOG, 5))
    assert kinds(*done, CommitSeen(3, 3, "g", LOG, 3)) == set()
    assert kinds(*done, CommitSeen(3, 3, "g", LOG, 5)) == set()


def test_transactions_may_end_later_where_flipped_bits_are_repaired_first():
    history = History()
    history.traits[LOG] = Traits("t", retained=True, durable=True, kept=True)
    history.repaired_within_us = 5
    for event in (Healed(0, 10), TransactionsEnded(15, LOG), scanned(0)):
        history.add(event)
    assert check(history) == []
