"""Generations and epochs that end earlier ones: sound histories, and histories with one fault."""

from __future__ import annotations

from planted import LOG, A, acknowledged, scanned, sent

from ottla.sim.checkers.generations import check_successors
from ottla.sim.checkers.history import CommittedIn, Event, Generation, History, LatestSeen, Outdated


def found(*events: Event) -> set[str]:
    history = History()
    for event in events:
        history.add(event)
    return {anomaly.kind for anomaly in check_successors(history)}


def test_a_commit_of_a_generation_that_is_over_is_found():
    assert found(Generation(10, "g", 4), CommittedIn(11, 12, "g", 3)) == {"old-generation"}


def test_a_commit_that_was_asked_before_the_next_generation_began_is_sound():
    assert found(Generation(10, "g", 3), Generation(20, "g", 4), CommittedIn(19, 25, "g", 3)) == set()


def test_another_group_has_generations_of_its_own():
    assert found(Generation(10, "other", 4), CommittedIn(11, 12, "g", 3)) == set()


def test_a_later_leader_that_tells_of_an_earlier_end_is_found():
    assert found(LatestSeen(1, 2, LOG, 5, 100), LatestSeen(3, 4, LOG, 6, 90)) == {"latest-went-back"}


def test_a_leader_of_an_earlier_epoch_may_know_less():
    assert found(LatestSeen(1, 2, LOG, 6, 100), LatestSeen(3, 4, LOG, 5, 90)) == set()


def test_what_was_asked_before_the_first_was_answered_may_be_less():
    assert found(LatestSeen(1, 4, LOG, 5, 100), LatestSeen(3, 5, LOG, 6, 90)) == set()


def test_a_batch_of_an_epoch_that_is_over_is_found_where_it_is_acknowledged():
    assert found(sent(1, A), Outdated(1, "p", LOG, 1), acknowledged(1, 0)) == {"older-epoch"}


def test_a_batch_of_an_epoch_that_is_over_is_found_where_it_stands_in_the_log():
    assert found(sent(1, A), Outdated(1, "p", LOG, 1), scanned(0, A)) == {"older-epoch"}


def test_a_batch_of_an_epoch_that_is_over_and_is_refused_is_sound():
    assert found(sent(1, A), Outdated(1, "p", LOG, 1), scanned(0)) == set()
