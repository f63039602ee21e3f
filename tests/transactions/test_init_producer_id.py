"""InitProducerId, row by row of the coordinator's decision table."""

import pytest
from transaction_desk import ID, P0, P1, TIMEOUT_MS, Desk, begun, near_the_last_epoch

from ottla.kernel.errors import ErrorCode
from ottla.transactions.values import GivenProducer, TransactionState

OK = ErrorCode.NONE


def test_an_unknown_id_gets_a_new_producer_id_and_epoch_0():
    desk = Desk()
    assert desk.init() == GivenProducer(OK, 1000, 0)
    assert (desk.state, desk.transaction.timeout_ms, desk.transaction.started_ms) == (
        TransactionState.EMPTY,
        TIMEOUT_MS,
        -1,
    )


def test_while_no_producer_id_is_at_hand_the_client_asks_again():
    desk = Desk()
    desk.ids_at_hand = False
    assert desk.init() == GivenProducer(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert desk.log == []


def test_while_markers_are_on_their_way_the_client_asks_again():
    desk = Desk()
    producer = begun(desk)
    desk.end(producer, commit=True)
    assert desk.init().error == ErrorCode.CONCURRENT_TRANSACTIONS
    assert desk.init((77, 3)).error == ErrorCode.CONCURRENT_TRANSACTIONS, "before the expected id is looked at"


def test_who_expects_another_producer_id_is_fenced():
    desk = Desk()
    producer_id, epoch = begun(desk)
    assert desk.init((producer_id + 1, epoch)) == GivenProducer(ErrorCode.PRODUCER_FENCED)
    assert desk.state == TransactionState.ONGOING


def test_who_expects_an_id_that_has_expired_begins_anew():
    desk = Desk()
    assert desk.init((77, 5)) == GivenProducer(OK, 1000, 0)
    assert desk.init((1000, 0)) == GivenProducer(OK, 1000, 1)


@pytest.mark.parametrize("server_version", [0, 1, 2])
def test_over_an_open_transaction_the_owner_is_fenced_and_the_answer_is_51_whatever_the_client(server_version):
    desk = Desk(transaction_version=server_version)
    producer_id, epoch = begun(desk)
    assert desk.init() == GivenProducer(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert (desk.state, desk.transaction.producer_epoch) == (TransactionState.PREPARE_ABORT, epoch + 1)
    (markers,) = desk.markers
    assert (markers.producer_epoch, markers.committed, markers.version) == (epoch + 1, False, server_version)
    desk.mark()
    assert desk.init() == GivenProducer(OK, producer_id, epoch + 2), "the retry bumps once more"


def test_who_fences_with_its_own_epoch_is_given_the_raised_one_at_its_retry():
    desk = Desk()
    producer_id, epoch = begun(desk)
    assert desk.init((producer_id, epoch)).error == ErrorCode.CONCURRENT_TRANSACTIONS
    desk.mark()
    assert desk.init((producer_id, epoch)) == GivenProducer(OK, producer_id, epoch + 1)


def test_without_an_expected_epoch_it_is_raised_and_the_last_one_forgotten():
    desk = Desk()
    producer_id, _ = begun(desk)
    desk.end((producer_id, 0), commit=True)
    desk.mark()
    assert desk.init() == GivenProducer(OK, producer_id, 1)
    assert desk.transaction.last_epoch == -1
    assert desk.init((producer_id, 0)) == GivenProducer(ErrorCode.PRODUCER_FENCED)


def test_who_expects_the_current_epoch_is_given_the_next_and_the_same_again_at_a_repeat():
    desk = Desk()
    producer_id, epoch = desk.init()[1:]
    assert desk.init((producer_id, epoch)) == GivenProducer(OK, producer_id, epoch + 1)
    assert desk.init((producer_id, epoch)) == GivenProducer(OK, producer_id, epoch + 1)
    assert desk.init((producer_id, epoch + 1)) == GivenProducer(OK, producer_id, epoch + 2)
    assert desk.init((producer_id, epoch)) == GivenProducer(ErrorCode.PRODUCER_FENCED)


def test_a_repeat_is_known_again_by_the_next_coordinator():
    desk = Desk()
    producer_id, epoch = desk.init()[1:]
    desk.init((producer_id, epoch))
    desk.fail_over()
    assert desk.init((producer_id, epoch)) == GivenProducer(OK, producer_id, epoch + 1)


def test_the_timeout_is_taken_from_each_request_and_the_partitions_go():
    desk = Desk()
    producer = begun(desk)
    desk.end(producer, commit=False)
    desk.mark()
    desk.init(timeout_ms=5_000)
    assert (desk.state, desk.transaction.timeout_ms) == (TransactionState.EMPTY, 5_000)
    assert desk.transaction.partitions == frozenset()


def test_at_the_last_epochs_a_new_producer_id_takes_over():
    desk = Desk()
    producer_id, epoch = near_the_last_epoch(desk)
    desk.end((producer_id, epoch), commit=True)
    desk.mark()
    assert desk.init() == GivenProducer(OK, 1001, 0)
    assert desk.transaction.previous_id == producer_id


def test_who_expects_the_used_up_epoch_is_given_the_same_new_id_at_a_repeat():
    desk = Desk()
    old = near_the_last_epoch(desk)
    desk.end(old, commit=True)
    desk.mark()
    assert desk.init(old) == GivenProducer(OK, 1001, 0)
    assert desk.init(old) == GivenProducer(OK, 1001, 0)
    assert desk.init((old[0], 3)) == GivenProducer(ErrorCode.PRODUCER_FENCED)


def test_at_the_last_epochs_another_expected_epoch_is_fenced():
    desk = Desk()
    producer_id, epoch = near_the_last_epoch(desk)
    desk.end((producer_id, epoch), commit=True)
    desk.mark()
    assert desk.init((producer_id, 7)) == GivenProducer(ErrorCode.PRODUCER_FENCED)


@pytest.mark.parametrize(
    ("server_version", "after"), [(1, (1000, 32_767)), (2, (1001, 0))], ids=["at the next init", "at once"]
)
def test_a_fence_at_the_last_epoch_raises_it_in_the_markers_and_the_id_rotates(server_version, after):
    desk = Desk(transaction_version=server_version)
    near_the_last_epoch(desk)
    assert desk.init().error == ErrorCode.CONCURRENT_TRANSACTIONS
    assert desk.markers[-1].producer_epoch == 32_767
    desk.mark()
    assert (desk.transaction.producer_id, desk.transaction.producer_epoch) == after
    given = desk.init()
    assert given.error == OK and given.producer_id == 1001


def test_a_rotation_that_was_decided_survives_a_change_of_coordinators():
    desk = Desk()
    near_the_last_epoch(desk)
    desk.init()
    desk.fail_over()
    desk.mark()
    assert (desk.transaction.producer_id, desk.transaction.producer_epoch) == (1001, 0)


def test_a_fence_that_could_not_be_written_changes_nothing():
    desk = Desk()
    producer = begun(desk)
    desk.refusing = ErrorCode.NOT_ENOUGH_REPLICAS
    assert desk.init() == ErrorCode.COORDINATOR_NOT_AVAILABLE
    desk.refusing = None
    assert desk.state == TransactionState.ONGOING and desk.markers == []
    assert desk.end(producer, commit=True).error == OK
    assert desk.markers[-1].partitions == (P0, P1)
    assert desk.shard.transactions.keys() == {ID}
