"""The judge of contested offsets: what a group is told follows from the order of the records in its log."""

from __future__ import annotations

from ottla.kernel.ids import TopicPartition
from ottla.sim.checkers.contested import check_contested
from ottla.sim.checkers.history import Event, History
from ottla.sim.checkers.transaction_history import (
    AllEnded,
    ContestedEnded,
    ContestedStored,
    ContestedTaken,
    ContestedTold,
    ContestedUnstable,
)

PLACE, OTHER = TopicPartition("kept", 0), TopicPartition("kept", 1)
PRODUCER, PLAIN = 7, -1
IN_TRANSACTION, PLAINLY = 900, 300


def kinds(*events: Event) -> set[str]:
    history = History()
    for event in events:
        history.add(event)
    return {anomaly.kind for anomaly in check_contested(history)}


def stored(at_us: int, record: int, offset: int | None, producer: int = PLAIN) -> ContestedStored:
    return ContestedStored(at_us, PLACE, record, offset, producer)


def told(asked_us: int, at_us: int, offset: int, *, stable: bool = False) -> ContestedTold:
    return ContestedTold(asked_us, at_us, PLACE, offset, stable)


def unstable(asked_us: int, at_us: int) -> ContestedUnstable:
    return ContestedUnstable(asked_us, at_us, PLACE)


OPEN = stored(10, 4, IN_TRANSACTION, PRODUCER), ContestedTaken(12, PLACE, IN_TRANSACTION)
OVERTAKEN = stored(20, 5, PLAINLY), ContestedTaken(22, PLACE, PLAINLY)
COMMITTED = ContestedEnded(30, 6, PRODUCER, True)
ABORTED = ContestedEnded(30, 6, PRODUCER, False)


def test_a_plain_commit_behind_that_of_a_transaction_stands_after_the_transaction():
    assert kinds(*OPEN, *OVERTAKEN, COMMITTED, told(40, 50, PLAINLY)) == set()
    assert kinds(*OPEN, *OVERTAKEN, COMMITTED, told(40, 50, IN_TRANSACTION)) == {"misordered-commit"}
    assert kinds(*OPEN, *OVERTAKEN, COMMITTED, told(40, 50, -1)) == {"misordered-commit"}


def test_the_commit_of_a_transaction_replaces_an_earlier_plain_one():
    before = stored(5, 3, PLAINLY), ContestedTaken(6, PLACE, PLAINLY)
    ended = *before, *OPEN, COMMITTED, AllEnded(35)
    assert kinds(*ended, told(40, 50, IN_TRANSACTION)) == set()
    assert kinds(*ended, told(40, 50, PLAINLY)) == {"misordered-commit"}
    assert kinds(*before, *OPEN, ABORTED, AllEnded(35), told(40, 50, PLAINLY)) == set()
    assert kinds(*before, *OPEN, ABORTED, AllEnded(35), told(40, 50, IN_TRANSACTION)) == {"misordered-commit"}


def test_the_last_commit_of_a_transaction_is_the_one_that_counts():
    twice = *OPEN, stored(20, 5, 100, PRODUCER), ContestedTaken(21, PLACE, 100), COMMITTED, AllEnded(35)
    assert kinds(*twice, told(40, 50, 100, stable=True)) == set()
    assert kinds(*twice, told(40, 50, IN_TRANSACTION)) == {"misordered-commit"}


def test_an_answer_may_come_from_any_state_between_its_request_and_itself():
    for offset in (-1, PLAINLY):
        assert kinds(*OPEN, *OVERTAKEN, COMMITTED, told(11, 25, offset)) == set()
    assert kinds(*OPEN, *OVERTAKEN, COMMITTED, told(23, 25, -1)) == {"misordered-commit"}
    assert kinds(*OPEN, *OVERTAKEN, COMMITTED, told(5, 15, PLAINLY)) == {"misordered-commit"}


def test_no_stable_offset_is_told_while_a_transaction_may_change_it():
    assert kinds(*OPEN, told(13, 15, -1)) == set()
    assert kinds(*OPEN, told(13, 15, -1, stable=True)) == {"misordered-commit"}
    assert kinds(*OPEN, COMMITTED, told(13, 40, IN_TRANSACTION, stable=True)) == set()


def test_an_offset_is_unstable_only_while_a_transaction_may_change_it():
    assert kinds(*OPEN, unstable(13, 15)) == set()
    assert kinds(*OPEN, COMMITTED, unstable(13, 50)) == set()
    assert kinds(*OPEN, COMMITTED, AllEnded(35), unstable(40, 50)) == {"unstable-for-nothing"}
    assert kinds(unstable(13, 15)) == {"unstable-for-nothing"}


def test_a_tombstone_takes_offsets_of_open_transactions_too():
    gone = *OPEN, stored(20, 5, None), COMMITTED, AllEnded(35)
    assert kinds(*gone, told(40, 50, -1, stable=True)) == set()
    assert kinds(*gone, told(40, 50, IN_TRANSACTION)) == {"misordered-commit"}


def test_an_answered_commit_is_in_the_log():
    assert kinds(ContestedTaken(12, PLACE, IN_TRANSACTION), told(40, 50, -1)) == {"lost-commit"}
    assert kinds(ContestedTaken(12, OTHER, IN_TRANSACTION), told(40, 50, -1)) == set()
