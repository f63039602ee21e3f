"""Redpanda's rules: a sound history with one fault for each kind of violation."""

from __future__ import annotations

import pytest
from planted import LEADER, LOG, SOUND, A, B, C, D, acknowledged, kinds, polled, scanned, sent

from ottla.sim.checkers.history import Acknowledged, BatchRefused, DeleteAsked, Event, OutOfRange, Polled, Scanned
from ottla.sim.checkers.redpanda import check_redpanda


def test_a_sound_history_has_no_violations():
    assert kinds(check_redpanda, *SOUND, polled(0, A, B), polled(2, C), scanned(0, A, B, C)) == set()


def test_a_write_that_timed_out_may_appear_behind_what_was_known():
    assert kinds(check_redpanda, *SOUND, sent(3, D), scanned(0, A, B, C, D)) == set()


def test_what_only_the_leader_acknowledged_binds_nobody():
    events = (sent(1, A, acks=LEADER), acknowledged(1, 0), sent(2, B), acknowledged(2, 0), scanned(0, B))
    assert kinds(check_redpanda, *events) == set()


def test_what_was_deleted_on_somebodys_wish_is_not_lost():
    assert kinds(check_redpanda, *SOUND, DeleteAsked(5, LOG, 2), scanned(2, C)) == set()


def test_a_reader_whose_place_is_gone_begins_anew():
    assert kinds(check_redpanda, *SOUND, polled(2, C), OutOfRange(0, "r", LOG, 3), polled(0, A)) == set()


@pytest.mark.parametrize(
    ("kind", "events"),
    [
        ("offset-taken", (sent(1, A), sent(2, B), acknowledged(1, 0), acknowledged(2, 0))),
        ("out-of-order", (sent(1, A), acknowledged(1, 7), sent(2, B), acknowledged(2, 5))),
        ("front-went-back", (*SOUND, polled(0, A, B), polled(1, B))),
        ("front-went-back", (*SOUND, Scanned(9, LOG, 0, 3, ((0, A), (2, C), (1, B))))),
        ("readers-differ", (*SOUND, sent(3, D), polled(3, D), sent(4, b"x"), polled(3, b"x", reader="s"))),
        ("phantom", (*SOUND, polled(3, b"nobody's"))),
        ("failed-write-read", (*SOUND, sent(3, D), BatchRefused(1, "p", LOG, 3, 10), polled(3, D))),
        ("misplaced", (*SOUND, Polled(0, "r", LOG, 3, ((3, C),)))),
        ("late-write-in-the-past", (sent(1, A), Acknowledged(1, "p", LOG, 1, 7), sent(2, B), polled(5, B))),
        ("lost", (*SOUND, scanned(0, A, B))),
    ],
)
def test_each_violation_is_found_and_no_other(kind: str, events: tuple[Event, ...]):
    assert kinds(check_redpanda, *events) == {kind}
