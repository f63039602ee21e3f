"""Jepsen's rules: a sound history with one fault for each kind of anomaly; and histories that are allowed."""

from __future__ import annotations

import pytest
from planted import ALL, LEADER, LOG, SOUND, A, B, C, D, E, acknowledged, kinds, polled, scanned, sent

from ottla.sim.checkers.history import BatchRefused, DeleteAsked, Event, OutOfRange, Polled, Sent, Traits
from ottla.sim.checkers.jepsen import check_jepsen


def test_a_sound_history_has_no_anomalies():
    assert kinds(check_jepsen, *SOUND, polled(0, A, B), polled(2, C), scanned(0, A, B, C)) == set()


def test_what_was_never_answered_may_be_there_or_not():
    assert kinds(check_jepsen, *SOUND, sent(3, D), scanned(0, A, B, C)) == set()
    assert kinds(check_jepsen, *SOUND, sent(3, D), scanned(0, A, B, C, D)) == set()


def test_what_only_the_leader_acknowledged_may_be_gone():
    assert kinds(check_jepsen, sent(1, A, acks=LEADER), acknowledged(1, 0), scanned(0)) == set()


def test_what_was_deleted_on_somebodys_wish_is_not_lost_nor_skipped():
    events = (*SOUND, polled(0, A), DeleteAsked(5, LOG, 2), polled(2, C), scanned(2, C))
    assert kinds(check_jepsen, *events) == set()


def test_a_log_that_may_lose_what_was_read_is_not_judged():
    events = (*SOUND, polled(0, D), polled(0, A), scanned(0))
    assert kinds(check_jepsen, *events, traits=Traits("t", durable=False)) == set()


def test_others_may_write_between_the_values_of_one_send():
    events = (sent(1, A, C), acknowledged(1, 0), Polled(0, "r", LOG, 0, ((0, A), (1, B), (2, C))))
    assert "int-send-skip" not in kinds(check_jepsen, *events)


def test_a_reader_whose_place_is_gone_begins_anew():
    events = (*SOUND, polled(2, C), OutOfRange(0, "r", LOG, 3), polled(0, A, B, C), scanned(0, A, B, C))
    assert kinds(check_jepsen, *events) == set()


@pytest.mark.parametrize(
    ("kind", "events"),
    [
        (
            "inconsistent-offsets",
            (*SOUND, sent(3, D, producer="q"), polled(2, C), polled(2, D, reader="s"), scanned(0, A, B, C)),
        ),
        ("duplicate", (*SOUND, scanned(0, A, B, C), polled(3, A, reader="s"))),
        ("G1a", (*SOUND, sent(3, D), BatchRefused(1, "p", LOG, 3, 10), polled(3, D), scanned(0, A, B, C, D))),
        ("G1c", (*SOUND, polled(3, D), sent(3, D), scanned(0, A, B, C, D))),
        ("lost-write", (*SOUND, polled(0, A), polled(2, C, reader="s"))),
        ("unseen", (*SOUND, scanned(0, A, B))),
        ("int-poll-skip", (*SOUND, Polled(0, "r", LOG, 0, ((0, A), (2, C))), scanned(0, A, B, C))),
        ("int-nonmonotonic-poll", (*SOUND, Polled(0, "r", LOG, 0, ((1, B), (0, A))), scanned(0, A, B, C))),
        ("int-nonmonotonic-send", (sent(1, A, B), polled(0, B, A), scanned(0, B, A))),
        ("poll-skip", (*SOUND, polled(0, A), polled(2, C), scanned(0, A, B, C))),
        ("nonmonotonic-poll", (*SOUND, polled(0, A, B), polled(0, A), scanned(0, A, B, C))),
        (
            "nonmonotonic-send",
            (sent(1, A), sent(2, B), acknowledged(2, 0), acknowledged(1, 1), scanned(0, B, A)),
        ),
    ],
)
def test_each_anomaly_is_found_and_no_other(kind: str, events: tuple[Event, ...]):
    assert kinds(check_jepsen, *events) == {kind}


def test_plain_producers_may_overtake_themselves():
    first = Sent(1, "p", LOG, 1, (D,), ALL, False)
    second = Sent(2, "p", LOG, 2, (E,), ALL, False)
    assert kinds(check_jepsen, first, second, acknowledged(2, 0), acknowledged(1, 1), scanned(0, E, D)) == set()
