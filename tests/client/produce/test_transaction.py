"""The machine of one transactional id: the calls allowed in each state, and the effect of each error."""

from __future__ import annotations

import pytest

from ottla.client.errors import (
    ConnectionLost,
    InvalidTransactionState,
    ProducerFenced,
    RequestTimedOut,
    TransactionAborted,
    TransactionFailed,
    TransactionMustAbort,
    UnsupportedVersion,
    refused,
)
from ottla.client.model import ProducerIdentity
from ottla.client.produce.transaction import ProducerPhase, ProducerTransaction, TransactionRequest
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicPartition

ONE, TWO = TopicPartition("t", 0), TopicPartition("t", 1)
FIRST = ProducerIdentity(7, 3)


def a_state(*, version: int = 2, is_open: bool = True) -> ProducerTransaction:
    state = ProducerTransaction("id")
    state.initialized(FIRST, version)
    if is_open:
        state.begin()
    return state


def test_nothing_goes_before_initializing_and_records_only_into_an_open_transaction() -> None:
    state = ProducerTransaction("id")
    for call in (state.begin, state.require_open, state.begin_commit, state.begin_abort):
        with pytest.raises(InvalidTransactionState, match="not initialized"):
            call()
    state.initialized(FIRST, 2)
    for call in (state.require_uninitialized, state.require_open, state.begin_commit, state.begin_abort):
        with pytest.raises(InvalidTransactionState, match="no transaction is open"):
            call()
    state.begin()
    state.require_open()
    with pytest.raises(InvalidTransactionState, match="a transaction is open"):
        state.begin()


def test_the_end_gives_the_identity_and_the_protocol_of_the_next_transaction() -> None:
    state = a_state()
    state.partitions.update({ONE, TWO})
    assert state.not_yet_added([TWO, TopicPartition("t", 2)]) == [TopicPartition("t", 2)]
    state.begin_commit()
    state.ended(ProducerIdentity(7, 4), 1)
    assert (state.phase, state.identity, state.brokers_add) == (ProducerPhase.READY, (7, 4), False)
    assert not state.holds_something


def test_a_commit_of_unknown_outcome_is_asked_for_again_and_never_aborted() -> None:
    state = a_state()
    state.begin_commit()
    lost = ConnectionLost("gone")
    assert state.failed(lost, TransactionRequest.END) is lost
    with pytest.raises(InvalidTransactionState, match="being committed"):
        state.begin_abort()
    assert not state.can_abort
    state.begin_commit()


def test_a_commit_first_delivers_what_it_holds_and_takes_nothing_more() -> None:
    state = a_state()
    state.begin_delivery()
    state.require_writable()
    for call in (state.require_open, state.begin):
        with pytest.raises(InvalidTransactionState, match="being committed"):
            call()
    state.begin_delivery()
    assert state.can_abort
    state.begin_commit()
    assert state.phase is ProducerPhase.COMMITTING


def test_a_batch_that_fails_while_it_is_delivered_for_the_commit_prevents_it() -> None:
    state = a_state()
    state.begin_delivery()
    state.batch_failed(refused(ErrorCode.MESSAGE_TOO_LARGE, "x"), was_sent=True)
    for call in (state.begin_commit, state.require_writable):
        with pytest.raises(TransactionMustAbort, match="MESSAGE_TOO_LARGE"):
            call()
    state.begin_abort()


def test_an_abort_of_unknown_outcome_is_asked_for_again() -> None:
    state = a_state()
    state.begin_abort()
    assert isinstance(state.failed(refused(ErrorCode.CONCURRENT_TRANSACTIONS, "x"), TransactionRequest.END), Exception)
    assert state.phase is ProducerPhase.ABORTING
    state.begin_abort()


@pytest.mark.parametrize("step", [TransactionRequest.ADD, TransactionRequest.PRODUCE, TransactionRequest.OFFSETS])
@pytest.mark.parametrize(
    "error",
    [
        RequestTimedOut("late"),
        refused(ErrorCode.TRANSACTION_ABORTABLE, "x"),
        refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "x"),
        refused(ErrorCode.GROUP_AUTHORIZATION_FAILED, "x"),
        refused(ErrorCode.ILLEGAL_GENERATION, "x"),
        refused(ErrorCode.NOT_ENOUGH_REPLICAS, "x"),
    ],
    ids=str,
)
def test_after_most_errors_the_transaction_can_only_be_aborted(step: TransactionRequest, error: Exception) -> None:
    state = a_state()
    raised = state.failed(error, step)
    assert isinstance(raised, TransactionMustAbort) and raised.__cause__ is error
    for call in (state.begin_commit, state.require_open, state.begin):
        with pytest.raises(TransactionMustAbort):
            call()
    state.begin_abort()
    state.ended(FIRST, 2)
    state.begin()


@pytest.mark.parametrize(
    ("code", "step", "kind"),
    [
        (ErrorCode.PRODUCER_FENCED, TransactionRequest.ADD, ProducerFenced),
        (ErrorCode.PRODUCER_FENCED, TransactionRequest.PRODUCE, ProducerFenced),
        (ErrorCode.INVALID_PRODUCER_EPOCH, TransactionRequest.ADD, ProducerFenced),
        (ErrorCode.INVALID_PRODUCER_EPOCH, TransactionRequest.OFFSETS, ProducerFenced),
        (ErrorCode.INVALID_PRODUCER_EPOCH, TransactionRequest.END, ProducerFenced),
        (ErrorCode.INVALID_PRODUCER_EPOCH, TransactionRequest.INITIALIZE, ProducerFenced),
        (ErrorCode.INVALID_PRODUCER_EPOCH, TransactionRequest.PRODUCE, TransactionMustAbort),
        (ErrorCode.INVALID_TXN_STATE, TransactionRequest.PRODUCE, TransactionMustAbort),
        (ErrorCode.INVALID_TXN_STATE, TransactionRequest.ADD, TransactionFailed),
        (ErrorCode.INVALID_TXN_STATE, TransactionRequest.END, TransactionFailed),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, TransactionRequest.PRODUCE, TransactionFailed),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, TransactionRequest.ADD, TransactionFailed),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, TransactionRequest.OFFSETS, TransactionFailed),
        (ErrorCode.INVALID_TRANSACTION_TIMEOUT, TransactionRequest.INITIALIZE, TransactionFailed),
        (ErrorCode.INVALID_REQUEST, TransactionRequest.END, TransactionFailed),
        (ErrorCode.TRANSACTION_ABORTABLE, TransactionRequest.END, TransactionMustAbort),
        (ErrorCode.UNKNOWN_PRODUCER_ID, TransactionRequest.END, TransactionMustAbort),
    ],
)
def test_the_same_code_weighs_as_in_javas_client(
    code: ErrorCode, step: TransactionRequest, kind: type[Exception]
) -> None:
    state = a_state()
    if step is TransactionRequest.END:
        state.begin_commit()
    raised = state.failed(refused(code, "x"), step)
    assert type(raised) is kind
    assert state.can_abort == (kind is TransactionMustAbort)


def test_a_refused_abort_leaves_nothing_else_to_try() -> None:
    state = a_state()
    state.begin_abort()
    assert (
        type(state.failed(refused(ErrorCode.TRANSACTION_ABORTABLE, "x"), TransactionRequest.END)) is TransactionFailed
    )


def test_a_broker_too_old_for_transactions_is_fatal() -> None:
    state = ProducerTransaction("id")
    assert isinstance(state.failed(UnsupportedVersion("old"), TransactionRequest.INITIALIZE), TransactionFailed)
    with pytest.raises(TransactionFailed):
        state.require_uninitialized()


def test_the_first_error_is_told_ever_after_and_a_fatal_one_outweighs_it() -> None:
    state = a_state()
    first = state.failed(RequestTimedOut("late"), TransactionRequest.PRODUCE)
    assert state.failed(ConnectionLost("gone"), TransactionRequest.OFFSETS) is first
    fenced = state.failed(refused(ErrorCode.PRODUCER_FENCED, "x"), TransactionRequest.OFFSETS)
    assert isinstance(fenced, ProducerFenced)
    assert state.failed(RequestTimedOut("late"), TransactionRequest.PRODUCE) is fenced
    with pytest.raises(ProducerFenced):
        state.begin_abort()


def test_a_failed_batch_costs_an_epoch_where_transactions_do_not_have_their_own() -> None:
    classic, own = a_state(version=1), a_state(version=2)
    for state in (classic, own):
        state.batch_failed(RequestTimedOut("late"), was_sent=True)
        state.begin_abort()
    assert classic.wants_new_epoch(1)
    assert not own.wants_new_epoch(2)
    unsent = a_state(version=1)
    unsent.batch_failed(RequestTimedOut("late"), was_sent=False)
    assert unsent.phase is ProducerPhase.MUST_ABORT and not unsent.wants_new_epoch(1)


def test_batches_that_fail_while_aborting_change_nothing_but_the_epoch() -> None:
    state = a_state(version=1)
    state.begin_abort()
    state.batch_failed(RequestTimedOut("late"), was_sent=True)
    assert state.phase is ProducerPhase.ABORTING and state.fault is None and state.wants_new_epoch(1)


def test_changing_to_the_protocol_with_an_epoch_for_each_transaction_takes_a_new_epoch() -> None:
    assert a_state(version=1).wants_new_epoch(2)
    assert not a_state(version=1).wants_new_epoch(1)
    assert not a_state(version=2).wants_new_epoch(1), "the end of the transaction has brought one"


def test_a_batch_that_would_be_written_while_its_transaction_is_aborted_is_told_so() -> None:
    state = a_state()
    state.require_writable()
    state.begin_abort()
    with pytest.raises(TransactionAborted):
        state.require_writable()


@pytest.mark.parametrize("version", [1, 2])
def test_a_transaction_takes_batches_of_partitions_that_were_added_or_need_not_be(version: int) -> None:
    state = a_state(version=version)
    assert state.takes(ONE) == state.brokers_add
    state.partitions.add(ONE)
    assert state.takes(ONE)
    state.begin_delivery()
    assert state.takes(ONE)
    state.begin_commit()
    assert not state.takes(ONE)
