"""Transactions at the cut of a backup."""

from __future__ import annotations

from ottla.backup.cut import TransactionScan, torn
from ottla.records.batch import Batch
from ottla.records.builder import build_batch
from ottla.records.control import Marker, build_marker
from ottla.records.reader import Record


def written(producer: int, epoch: int) -> Batch:
    record = Record(0, 1_000, b"key", b"value")
    return Batch(
        build_batch([record], producer_id=producer, producer_epoch=epoch, base_sequence=0, is_transactional=True)
    )


def marker(producer: int, epoch: int) -> Batch:
    return Batch(
        build_marker(Marker.COMMIT, producer_id=producer, producer_epoch=epoch, coordinator_epoch=0, timestamp=1)
    )


def scan(*batches: Batch) -> TransactionScan:
    found = TransactionScan()
    for batch in batches:
        found.see(batch)
    return found


NOTHING = scan()


def test_a_transaction_with_records_below_one_end_and_behind_another_is_left_out() -> None:
    here = scan(written(7, 4), marker(7, 5)), NOTHING
    there = NOTHING, scan(written(7, 4))
    assert torn([here, there], ()) == (((7, 4),), ())


def test_a_transaction_whose_records_all_lie_below_the_ends_stays_though_its_marker_lies_behind() -> None:
    here = scan(written(7, 4), marker(7, 5)), scan(written(7, 5))
    there = scan(written(7, 4)), scan(marker(7, 5), written(7, 5))
    assert torn([here, there], ()) == ((), ())


def test_a_transaction_in_one_partition_on_both_sides_of_its_end_is_left_out() -> None:
    assert torn([(scan(written(7, 4)), scan(written(7, 4), marker(7, 5)))], ()) == (((7, 4),), ())


def test_the_marker_that_tells_an_epoch_apart_may_stand_behind_the_end() -> None:
    here = scan(written(7, 4)), scan(marker(7, 5))
    there = NOTHING, scan(written(7, 4))
    assert torn([here, there], ()) == (((7, 4),), ())


def test_of_producers_whose_transactions_share_an_epoch_none_is_left_out_and_they_are_told() -> None:
    here = scan(written(7, 4), marker(7, 4), written(7, 4), marker(7, 4)), NOTHING
    there = NOTHING, scan(written(7, 4))
    assert torn([here, there], ()) == ((), (7,))


def test_what_the_backup_before_left_out_stays_out_until_it_is_below_every_end() -> None:
    assert torn([(NOTHING, scan(written(7, 4)))], ((7, 4),)) == (((7, 4),), ())
    assert torn([(scan(written(7, 4), marker(7, 5)), NOTHING)], ((7, 4),)) == ((), ())


def test_a_scan_looks_at_the_producers_alone_that_it_was_given() -> None:
    found = TransactionScan(only={8})
    found.see(written(7, 4))
    found.see(written(8, 0))
    assert found.found == {(8, 0)}
