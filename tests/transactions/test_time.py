"""Timeouts that abort, and transactional ids that expire."""

import pytest
from transaction_desk import ID, P0, TIMEOUT_MS, Desk, begun

from ottla.kernel.errors import ErrorCode
from ottla.transactions.values import GivenProducer, TransactionState

CHECK_MS = 10_000


@pytest.mark.parametrize("server_version", [1, 2])
def test_a_transaction_open_for_longer_than_its_timeout_is_aborted_and_its_owner_fenced(server_version):
    desk = Desk(transaction_version=server_version)
    _, epoch = begun(desk, version=server_version)
    desk.pass_ms(TIMEOUT_MS)
    assert desk.state == TransactionState.ONGOING
    desk.pass_ms(CHECK_MS)
    assert (desk.state, desk.transaction.producer_epoch) == (TransactionState.PREPARE_ABORT, epoch + 1)
    assert desk.markers[-1][2:5] == (epoch + 1, False, server_version)


def test_after_a_timeout_a_late_abort_of_version_2_goes_on_and_a_late_commit_does_not():
    desk = Desk()
    producer_id, epoch = begun(desk, version=2)
    desk.pass_ms(TIMEOUT_MS + CHECK_MS)
    desk.mark()
    assert desk.end((producer_id, epoch), commit=True, version=2) == GivenProducer(ErrorCode.INVALID_TXN_STATE)
    assert desk.end((producer_id, epoch), commit=False, version=2) == GivenProducer(
        ErrorCode.NONE, producer_id, epoch + 1
    )


@pytest.mark.parametrize("commit", [True, False])
def test_after_a_timeout_version_1_is_fenced(commit):
    desk = Desk(transaction_version=1)
    producer = begun(desk)
    desk.pass_ms(TIMEOUT_MS + CHECK_MS)
    desk.mark()
    assert desk.end(producer, commit=commit) == GivenProducer(ErrorCode.PRODUCER_FENCED)


def test_many_late_transactions_are_all_aborted():
    desk = Desk()
    names = [f"tx{number}" for number in range(450)]
    for name in names:
        given = desk.init(name=name)
        desk.add((given.producer_id, given.producer_epoch), P0, name=name)
    desk.pass_ms(TIMEOUT_MS + CHECK_MS + 100)
    assert {desk.shard.transactions[name].state for name in names} == {TransactionState.PREPARE_ABORT}
    assert len(desk.markers) == len(names)


def test_an_abort_that_could_not_be_written_comes_up_again():
    desk = Desk()
    begun(desk)
    desk.refusing = ErrorCode.NOT_ENOUGH_REPLICAS
    desk.pass_ms(TIMEOUT_MS + CHECK_MS)
    assert desk.state == TransactionState.ONGOING
    desk.refusing = None
    desk.pass_ms(CHECK_MS)
    assert desk.state == TransactionState.PREPARE_ABORT


def test_time_in_which_the_process_stood_still_is_not_held_against_a_transaction():
    desk = Desk()
    producer = begun(desk)
    desk.now_ms += 2 * TIMEOUT_MS
    desk.shard.postpone(2 * TIMEOUT_MS)
    desk.pass_ms(0)
    assert desk.end(producer, commit=True).error == ErrorCode.NONE


def test_a_wall_clock_that_goes_back_breaks_no_step():
    desk = Desk()
    producer = begun(desk)
    desk.wall_start_ms -= 3_600_000
    assert desk.add(producer, P0) == ErrorCode.NONE
    assert desk.end(producer, commit=True).error == ErrorCode.NONE
    desk.mark()
    assert desk.state == TransactionState.COMPLETE_COMMIT
    assert desk.init().error == ErrorCode.NONE


@pytest.mark.parametrize("moves", [False, True], ids=["one coordinator", "another takes over"])
def test_a_transaction_that_began_by_a_clock_that_was_ahead_is_aborted_after_its_timeout(moves):
    """Seed 98 of three brokers: readers were held back until the wall clock had reached the wrong time."""
    desk = Desk()
    desk.wall_start_ms += 3_600_000
    begun(desk)
    desk.wall_start_ms -= 3_600_000
    if moves:
        desk.fail_over()
    desk.pass_ms(TIMEOUT_MS)
    assert desk.state == TransactionState.ONGOING
    desk.pass_ms(2 * CHECK_MS)
    assert desk.state == TransactionState.PREPARE_ABORT


def test_a_forward_jump_of_the_wall_clock_aborts_no_transaction_that_was_looked_at():
    desk = Desk()
    begun(desk)
    desk.pass_ms(CHECK_MS)
    desk.wall_start_ms += 3_600_000
    desk.pass_ms(TIMEOUT_MS - CHECK_MS)
    assert desk.state == TransactionState.ONGOING
    desk.pass_ms(CHECK_MS)
    assert desk.state == TransactionState.PREPARE_ABORT


def test_each_transaction_of_an_id_has_its_own_timeout():
    desk = Desk()
    producer = begun(desk)
    desk.pass_ms(TIMEOUT_MS - CHECK_MS)
    desk.end(producer, commit=True)
    desk.mark()
    desk.add(producer, P0)
    desk.pass_ms(TIMEOUT_MS)
    assert desk.state == TransactionState.ONGOING
    desk.pass_ms(CHECK_MS)
    assert desk.state == TransactionState.PREPARE_ABORT


def test_an_id_that_nobody_uses_expires_and_only_an_init_knows_it_then():
    desk = Desk()
    producer = begun(desk)
    desk.end(producer, commit=True)
    desk.mark()
    desk.pass_ms(desk.settings.id_expiration_ms - 1)
    assert ID in desk.shard.transactions
    desk.pass_ms(desk.settings.expiration_check_ms + 1)
    assert ID not in desk.shard.transactions and desk.log[-1][1] is None
    assert desk.add(producer, P0) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert desk.end(producer, commit=True).error == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert desk.init().producer_id == producer[0] + 1


def test_an_id_whose_transaction_has_not_ended_does_not_expire():
    desk = Desk()
    producer = begun(desk)
    desk.end(producer, commit=True)
    desk.pass_ms(2 * desk.settings.id_expiration_ms)
    assert desk.state == TransactionState.PREPARE_COMMIT


def test_a_forward_jump_of_the_wall_clock_expires_no_id():
    desk = Desk()
    desk.init()
    desk.wall_start_ms += 2 * desk.settings.id_expiration_ms
    desk.pass_ms(desk.settings.expiration_check_ms)
    assert ID in desk.shard.transactions


def test_many_ids_expire_in_slices():
    desk = Desk()
    for number in range(450):
        desk.init(name=f"tx{number}")
    desk.pass_ms(desk.settings.id_expiration_ms + desk.settings.expiration_check_ms)
    assert desk.shard.transactions == {}
