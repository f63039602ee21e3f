"""AddPartitionsToTxn and AddOffsetsToTxn, row by row of the coordinator's decision table."""

from tests.shard_desk import WALL_START_MS
from transaction_desk import P0, P1, P2, Desk, begun, near_the_last_epoch

from ottla.kernel.errors import ErrorCode
from ottla.transactions.values import TransactionState

OK, ABORTABLE = ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE


def test_an_unknown_id_is_refused():
    desk = Desk()
    assert desk.add((1, 0), P0) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert desk.verify((1, 0), P0) == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_the_first_partitions_begin_the_transaction_and_later_ones_do_not_move_its_start():
    desk = Desk()
    producer = desk.init()[1:]
    desk.pass_ms(1_000)
    assert desk.add(producer, P0, version=2) == OK
    desk.pass_ms(1_000)
    assert desk.add(producer, P1, version=2) == OK
    assert (desk.state, desk.transaction.partitions) == (TransactionState.ONGOING, {P0, P1})
    assert desk.transaction.started_ms == WALL_START_MS + 1_000
    assert desk.transaction.updated_ms == WALL_START_MS + 2_000
    assert desk.transaction.version == 2


def test_partitions_that_are_all_there_are_added_without_a_write():
    desk = Desk()
    producer = begun(desk)
    before = len(desk.log)
    assert desk.add(producer, P1) == OK
    assert len(desk.log) == before


def test_another_producer_id_or_epoch_is_refused():
    desk = Desk()
    producer_id, epoch = begun(desk)
    for ask in (desk.add, desk.verify):
        assert ask((producer_id + 1, epoch), P2) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert ask((producer_id, epoch + 1), P2) == ErrorCode.PRODUCER_FENCED
        assert ask((producer_id, epoch - 1), P2) == ErrorCode.PRODUCER_FENCED


def test_while_markers_are_on_their_way_adding_waits_before_the_id_and_epoch_are_looked_at():
    desk = Desk()
    old = near_the_last_epoch(desk)
    answer = desk.end(old, commit=True, version=2)
    new = (answer.producer_id, answer.producer_epoch)
    assert new == (1001, 0)
    assert desk.add(new, P0, version=2) == ErrorCode.CONCURRENT_TRANSACTIONS
    desk.mark()
    assert desk.add(new, P0, version=2) == OK


def test_verification_looks_at_the_id_and_epoch_first():
    desk = Desk()
    producer_id, epoch = begun(desk)
    desk.end((producer_id, epoch), commit=False)
    assert desk.verify((producer_id + 1, epoch), P0) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert desk.verify((producer_id, epoch + 1), P0) == ErrorCode.PRODUCER_FENCED
    assert desk.verify((producer_id, epoch), P0) == ErrorCode.CONCURRENT_TRANSACTIONS


def test_verification_says_of_each_partition_whether_it_is_in_the_transaction_and_writes_nothing():
    desk = Desk()
    producer = begun(desk)
    before = len(desk.log)
    assert desk.verify(producer, P0, P1, P2) == {P0: OK, P1: OK, P2: ABORTABLE}
    assert len(desk.log) == before


def test_after_the_end_nothing_is_in_the_transaction():
    desk = Desk()
    producer = begun(desk)
    desk.end(producer, commit=True)
    desk.mark()
    assert desk.verify(producer, P0) == {P0: ABORTABLE}


def test_the_next_transaction_begins_with_its_own_partitions_alone():
    desk = Desk()
    producer = begun(desk)
    desk.end(producer, commit=True)
    desk.mark()
    assert desk.add(producer, P2) == OK
    assert desk.transaction.partitions == {P2}


def test_an_addition_that_could_not_be_written_is_not_there():
    desk = Desk()
    producer = begun(desk)
    desk.refusing = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert desk.add(producer, P2) == ErrorCode.NOT_COORDINATOR
    desk.refusing = None
    assert desk.verify(producer, P2) == {P2: ABORTABLE}
