"""EndTxn, cell by cell of the coordinator's decision table, for both transaction versions."""

import pytest
from tests.shard_desk import WALL_START_MS
from transaction_desk import P0, P1, Desk, begun, near_the_last_epoch

from ottla.kernel.errors import ErrorCode
from ottla.transactions.values import GivenProducer, TransactionState

OK, STATE, FENCED = ErrorCode.NONE, ErrorCode.INVALID_TXN_STATE, ErrorCode.PRODUCER_FENCED
BUSY, MAPPING = ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.INVALID_PRODUCER_ID_MAPPING


def in_state(desk: Desk, state: TransactionState, *, version: int) -> tuple[int, int]:
    """The id and the stored epoch of a producer whose last transaction is in this state."""
    if state == TransactionState.EMPTY:
        desk.init()
    else:
        producer = begun(desk, version=version)
        if state != TransactionState.ONGOING:
            desk.end(
                producer,
                commit=state in (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT),
                version=version,
            )
        if state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT):
            desk.mark()
    assert desk.state == state
    return desk.transaction.producer_id, desk.transaction.producer_epoch


@pytest.mark.parametrize(
    ("state", "commit", "abort"),
    [
        (TransactionState.EMPTY, STATE, STATE),
        (TransactionState.ONGOING, OK, OK),
        (TransactionState.PREPARE_COMMIT, BUSY, BUSY),
        (TransactionState.PREPARE_ABORT, BUSY, BUSY),
        (TransactionState.COMPLETE_COMMIT, OK, STATE),
        (TransactionState.COMPLETE_ABORT, STATE, OK),
    ],
)
@pytest.mark.parametrize("committed", [True, False], ids=["commit", "abort"])
def test_version_1_ends_at_an_equal_epoch(state, commit, abort, committed):
    desk = Desk()
    producer = in_state(desk, state, version=0)
    before = len(desk.log)
    assert desk.end(producer, commit=committed).error == (commit if committed else abort)
    if state == TransactionState.ONGOING:
        assert desk.state == (TransactionState.PREPARE_COMMIT if committed else TransactionState.PREPARE_ABORT)
        assert (desk.transaction.producer_id, desk.transaction.producer_epoch) == producer
    else:
        assert len(desk.log) == before and desk.state == state


@pytest.mark.parametrize(
    "state", [TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT]
)
def test_version_1_looks_at_the_id_and_epoch_before_all_else(state):
    desk = Desk()
    producer_id, epoch = in_state(desk, state, version=0)
    assert desk.end((producer_id + 1, epoch), commit=True).error == MAPPING
    assert desk.end((producer_id, epoch + 1), commit=True).error == FENCED
    assert desk.end((producer_id, epoch - 1), commit=True).error == FENCED


BUMP = "PrepareAbort, with the epoch raised"
TABLE = {
    TransactionState.EMPTY: (STATE, BUMP, FENCED, FENCED),
    TransactionState.ONGOING: ("PrepareCommit, with the epoch raised", BUMP, FENCED, FENCED),
    TransactionState.PREPARE_COMMIT: (BUSY, BUSY, BUSY, BUSY),
    TransactionState.PREPARE_ABORT: (BUSY, BUSY, BUSY, BUSY),
    TransactionState.COMPLETE_COMMIT: (STATE, BUMP, OK, STATE),
    TransactionState.COMPLETE_ABORT: (STATE, BUMP, STATE, OK),
}


@pytest.mark.parametrize("state", TABLE, ids=lambda state: state.label)
@pytest.mark.parametrize("column", range(4), ids=["E commit", "E abort", "E-1 commit", "E-1 abort"])
def test_version_2_ends_by_the_epoch(state, column):
    desk = Desk()
    producer_id, stored = in_state(desk, state, version=2)
    commit, epoch = column % 2 == 0, stored - column // 2
    before = len(desk.log)
    answer = desk.end((producer_id, epoch), commit=commit, version=2)
    expected = TABLE[state][column]
    if isinstance(expected, str):
        assert answer == GivenProducer(OK, producer_id, stored + 1)
        assert desk.transaction.producer_epoch == stored + 1
        ends = TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT
        assert desk.state == (ends if state == TransactionState.ONGOING else TransactionState.COMPLETE_ABORT)
        return
    assert answer == (GivenProducer(OK, producer_id, stored) if expected == OK else GivenProducer(expected))
    assert len(desk.log) == before


@pytest.mark.parametrize("committed", [True, False], ids=["commit", "abort"])
def test_a_fenced_producer_of_version_2_is_not_given_the_epoch_of_a_successor_of_version_1(committed):
    """Seed 26 of three brokers: the end of the successor's transaction was treated as a repeat, as in Apache Kafka."""
    desk = Desk()
    fenced = desk.init()[1:]
    successor = desk.init()[1:]
    desk.add(successor, P0)
    desk.end(successor, commit=committed)
    desk.mark()
    assert desk.end(fenced, commit=committed, version=2) == GivenProducer(FENCED)
    assert (desk.transaction.producer_id, desk.transaction.producer_epoch) == successor


def test_version_2_says_busy_before_the_id_and_epoch_are_looked_at():
    desk = Desk()
    producer_id, epoch = in_state(desk, TransactionState.PREPARE_COMMIT, version=2)
    assert desk.end((producer_id + 5, epoch + 9), commit=False, version=2).error == BUSY


def test_version_2_refuses_another_id():
    desk = Desk()
    producer_id, epoch = in_state(desk, TransactionState.ONGOING, version=2)
    assert desk.end((producer_id + 1, epoch), commit=True, version=2).error == MAPPING


def test_an_unknown_id_is_refused():
    for version in (0, 2):
        assert Desk().end((1, 0), commit=True, version=version).error == MAPPING


def test_an_abort_without_partitions_begins_now_and_sends_no_markers():
    desk = Desk()
    producer = in_state(desk, TransactionState.EMPTY, version=2)
    desk.pass_ms(500)
    desk.end(producer, commit=False, version=2)
    assert desk.state == TransactionState.COMPLETE_ABORT and desk.markers == []
    assert desk.transaction.started_ms == WALL_START_MS + 500


def test_markers_carry_the_raised_epoch_and_the_version():
    desk = Desk()
    producer_id, epoch = begun(desk, version=2)
    desk.end((producer_id, epoch), commit=True, version=2)
    (markers,) = desk.markers
    assert markers[1:] == (producer_id, epoch + 1, True, 2, (P0, P1))


def test_markers_of_version_1_carry_the_epoch_of_the_records():
    desk = Desk()
    producer_id, epoch = begun(desk)
    desk.end((producer_id, epoch), commit=False)
    assert desk.markers[-1][1:] == (producer_id, epoch, False, 0, (P0, P1))


def test_at_the_last_epoch_version_2_answers_the_id_that_comes_next():
    desk = Desk()
    producer_id, epoch = near_the_last_epoch(desk)
    assert desk.end((producer_id, epoch), commit=True, version=2) == GivenProducer(OK, 1001, 0)
    assert desk.markers[-1][1:3] == (producer_id, 32_767)
    assert (desk.transaction.producer_id, desk.transaction.next_id) == (producer_id, 1001)
    desk.mark()
    assert (desk.transaction.producer_id, desk.transaction.producer_epoch) == (1001, 0)
    assert (desk.transaction.previous_id, desk.transaction.next_id) == (producer_id, -1)


@pytest.mark.parametrize(("commit", "answer"), [(True, GivenProducer(OK, 1001, 0)), (False, GivenProducer(STATE))])
def test_a_repeat_over_a_rotation_is_known_by_the_id_before(commit, answer):
    desk = Desk()
    old = near_the_last_epoch(desk)
    desk.end(old, commit=True, version=2)
    desk.mark()
    assert desk.end(old, commit=commit, version=2) == answer
    desk.add((1001, 0), P0, version=2)
    assert desk.end(old, commit=True, version=2) == GivenProducer(FENCED), "the next transaction has begun"


def test_an_abort_that_finds_the_very_last_epoch_does_not_raise_it():
    desk = Desk()
    old = near_the_last_epoch(desk, 32_767)
    assert desk.end(old, commit=False, version=2) == GivenProducer(OK, 1001, 0)
    assert desk.markers[-1].producer_epoch == 32_767


def test_at_the_last_epoch_an_end_waits_for_a_producer_id():
    desk = Desk()
    old = near_the_last_epoch(desk)
    desk.ids_at_hand = False
    assert desk.end(old, commit=True, version=2) == GivenProducer(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert desk.state == TransactionState.ONGOING


def test_an_end_that_could_not_be_written_is_not_decided():
    desk = Desk()
    producer = begun(desk, version=2)
    desk.refusing = ErrorCode.REQUEST_TIMED_OUT
    assert desk.end(producer, commit=True, version=2) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    desk.refusing = None
    assert desk.state == TransactionState.ONGOING and desk.markers == []
    assert desk.end(producer, commit=False, version=2).error == OK
