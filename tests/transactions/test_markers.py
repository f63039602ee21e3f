"""Markers and completion, also over changes of coordinators."""

from dataclasses import replace

from transaction_desk import ID, P0, P1, Desk, begun, found_in_the_log

from ottla.kernel.errors import ErrorCode
from ottla.transactions.values import TransactionState


def test_the_last_marker_completes_the_transaction():
    desk = Desk()
    producer = begun(desk)
    desk.end(producer, commit=True)
    desk.mark(P0)
    assert desk.state == TransactionState.PREPARE_COMMIT
    desk.mark(P0)
    assert desk.state == TransactionState.PREPARE_COMMIT, "a repeat of one is not the other"
    desk.mark(P1)
    assert desk.state == TransactionState.COMPLETE_COMMIT and desk.transaction.partitions == frozenset()


def test_a_new_coordinator_sends_all_markers_again():
    desk = Desk()
    producer = begun(desk)
    desk.end(producer, commit=False)
    sent = desk.markers[-1]
    desk.mark(P0)
    desk.fail_over()
    assert desk.markers == [sent], "which of them were written is not in the log"
    desk.mark(P1)
    assert desk.state == TransactionState.PREPARE_ABORT
    desk.mark(P0)
    assert desk.state == TransactionState.COMPLETE_ABORT


def test_a_late_answer_to_markers_of_an_earlier_transaction_does_not_complete_this_one():
    desk = Desk()
    producer_id, epoch = begun(desk, version=2)
    desk.end((producer_id, epoch), commit=True, version=2)
    old = desk.markers[-1]
    desk.mark()
    desk.add((producer_id, epoch + 1), P0, P1, version=2)
    desk.end((producer_id, epoch + 1), commit=False, version=2)
    desk.mark(of=old)
    assert desk.state == TransactionState.PREPARE_ABORT


def test_a_late_answer_finds_nothing_once_the_id_has_expired():
    desk = Desk()
    producer = begun(desk)
    desk.end(producer, commit=True)
    sent = desk.markers[-1]
    desk.mark()
    desk.pass_ms(desk.settings.id_expiration_ms + desk.settings.expiration_check_ms)
    assert ID not in desk.shard.transactions
    before = len(desk.log)
    desk.mark(of=sent)
    assert len(desk.log) == before


def test_a_completion_that_could_not_be_written_is_tried_again():
    desk = Desk()
    producer = begun(desk)
    desk.end(producer, commit=True)
    desk.refusing = ErrorCode.NOT_ENOUGH_REPLICAS
    desk.mark()
    desk.pass_ms(1_000)
    assert desk.state == TransactionState.PREPARE_COMMIT
    desk.refusing = None
    desk.pass_ms(1_000)
    assert desk.state == TransactionState.COMPLETE_COMMIT


def test_a_prepared_transaction_without_partitions_that_was_read_from_a_log_is_completed():
    desk = Desk()
    desk.init()
    found_in_the_log(desk, replace(desk.transaction, state=TransactionState.PREPARE_ABORT, started_ms=1))
    desk.fail_over()
    assert desk.state == TransactionState.PREPARE_ABORT
    desk.pass_ms(1_000)
    assert desk.state == TransactionState.COMPLETE_ABORT


def test_what_is_described_of_an_ending_transaction_are_the_partitions_without_a_marker():
    desk = Desk()
    producer = begun(desk)
    described = desk.describe()
    assert (described.transaction_state, [(each.topic, each.partitions) for each in described.topics]) == (
        "Ongoing",
        [("t", [0, 1])],
    )
    desk.end(producer, commit=True)
    desk.mark(P0)
    described = desk.describe()
    assert (described.transaction_state, described.topics[0].partitions) == ("PrepareCommit", [1])
    assert (described.producer_id, described.producer_epoch) == producer


def test_an_unknown_id_is_described_as_not_found():
    assert Desk().describe().error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def test_transactions_are_listed_by_state_producer_duration_and_name():
    desk = Desk()
    begun(desk)
    desk.init(name="other")
    assert desk.listed() == ["other", "tx"]
    assert desk.listed(state_filters=["Ongoing"]) == ["tx"]
    assert desk.listed(producer_id_filters=[1001]) == ["other"]
    desk.pass_ms(5_000)
    assert desk.listed(state_filters=["Ongoing"], duration_filter=5_000) == []
    assert desk.listed(state_filters=["Ongoing"], duration_filter=4_999) == ["tx"]
    assert desk.listed("oth") == ["other"]
