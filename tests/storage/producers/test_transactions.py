"""The partition's role in transactions: guards, epochs of markers, the last stable offset over restarts."""

from __future__ import annotations

import pytest
from log_desk import T0, a_batch, a_log, put, read_at, reopened

from ottla.kernel.errors import ErrorCode
from ottla.records.batch import Batch
from ottla.records.checksum import crc32c
from ottla.records.control import Marker, build_marker
from ottla.storage.log import Log
from ottla.storage.producers.producers import Guard
from ottla.storage.producers.snapshot import decode_snapshot, encode_snapshot
from ottla.storage.values import AbortedTransaction, Appended, Origin

P = 7
STATE, FENCED = ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_PRODUCER_EPOCH


def a_guard(log: Log, *, epoch: int = 0, sequence: int = 0, bumps: bool = False, at_ms: int = T0) -> Guard:
    guard = log.producers.guard(P, epoch, sequence, bumps=bumps, now_ms=at_ms)
    assert isinstance(guard, Guard)
    return guard


def append(
    log: Log, *, epoch: int = 0, sequence: int = 0, guard: Guard | None = None, transactional: bool = True
) -> Appended | ErrorCode:
    batch = a_batch(producer_id=P, epoch=epoch, sequence=sequence, transactional=transactional)
    return log.append(batch, leader_epoch=0, wall_ms=T0, guard=guard)


def mark(
    log: Log, kind: Marker = Marker.COMMIT, *, epoch: int = 0, coordinator_epoch: int = 0, bumps: bool = False
) -> Appended | ErrorCode:
    marker = build_marker(kind, producer_id=P, producer_epoch=epoch, coordinator_epoch=coordinator_epoch, timestamp=T0)
    return log.append(Batch(marker), leader_epoch=0, wall_ms=T0, origin=Origin.COORDINATOR, bumps=bumps)


# Guards


def test_the_first_batch_of_a_transaction_needs_a_guard_and_the_next_do_not() -> None:
    log = a_log()
    assert append(log) == STATE
    guard = a_guard(log)
    assert append(log) == STATE, "that one is asked for is not an answer"
    assert isinstance(append(log, guard=guard), Appended)
    assert log.producers.guard(P, 0, 1, bumps=False, now_ms=T0) is None
    assert isinstance(append(log, sequence=1), Appended)


def test_an_answer_that_comes_after_a_marker_lets_nothing_into_the_next_transaction() -> None:
    log = a_log()
    late = a_guard(log)
    assert isinstance(mark(log, Marker.ABORT), Appended)
    assert append(log, guard=late) == STATE
    again = a_guard(log)
    assert append(log, guard=late) == STATE, "that there is a guard does not make the late one good"
    assert isinstance(append(log, guard=again), Appended)


def test_a_marker_of_the_guards_own_epoch_leaves_it_where_each_transaction_has_an_epoch() -> None:
    log = a_log()
    append(log, guard=a_guard(log, bumps=True))
    of_next = a_guard(log, epoch=1, bumps=True)
    assert isinstance(mark(log, epoch=1, bumps=True), Appended)
    assert isinstance(append(log, epoch=1, guard=of_next), Appended)


def test_a_batch_of_an_older_epoch_is_fenced_before_its_guard_is_looked_at() -> None:
    log = a_log()
    append(log, guard=a_guard(log))
    mark(log, epoch=1, bumps=True)
    assert log.producers.guard(P, 0, 1, bumps=True, now_ms=T0) == FENCED
    assert append(log, sequence=1) == FENCED


def test_a_lower_epoch_does_not_take_the_guard_of_a_higher_one_away() -> None:
    log = a_log()
    owners = a_guard(log, epoch=5)
    assert log.producers.guard(P, 4, 0, bumps=False, now_ms=T0) == FENCED
    assert log.producers.guard(P, 4, 0, bumps=True, now_ms=T0) == FENCED
    assert isinstance(append(log, epoch=5, guard=owners), Appended)


def test_a_higher_epoch_takes_the_guard_of_a_lower_one_away() -> None:
    log = a_log()
    zombies = a_guard(log, epoch=4, sequence=2)
    owners = a_guard(log, epoch=5, sequence=3)
    assert append(log, epoch=4, sequence=2, guard=zombies) == STATE
    assert isinstance(append(log, epoch=5, sequence=3, guard=owners), Appended), "the older sequences do not count"


def test_while_a_guard_stands_no_batch_passes_an_earlier_one() -> None:
    log = a_log()
    guard = a_guard(log, sequence=5)
    assert a_guard(log, sequence=3) is guard
    assert append(log, sequence=5, guard=guard) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert isinstance(append(log, sequence=3, guard=guard), Appended)


def test_a_producer_of_whom_nothing_is_known_begins_at_sequence_0_where_each_transaction_has_an_epoch() -> None:
    log = a_log()
    guard = a_guard(log, sequence=4, bumps=True)
    assert append(log, sequence=4, guard=guard) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    log = a_log()
    assert isinstance(append(log, sequence=4, guard=a_guard(log, sequence=4)), Appended)
    log = a_log()
    assert isinstance(append(log, sequence=4, transactional=False), Appended), "without transactions any sequence"


def test_a_repeated_batch_needs_no_guard() -> None:
    log = a_log()
    first = append(log, guard=a_guard(log))
    mark(log)
    again = append(log)
    assert isinstance(again, Appended) and isinstance(first, Appended)
    assert again.duplicate and again.base_offset == first.base_offset


def test_guards_go_with_leadership_and_with_age() -> None:
    log = a_log()
    guard = a_guard(log)
    log.producers.forget_guards()
    assert append(log, guard=guard) == STATE
    guard = a_guard(log)
    log.producers.expire(T0, T0)
    log.producers.expire(T0 + 1, T0 + 1)
    assert append(log, guard=guard) == STATE


def test_the_offsets_of_a_group_need_a_guard_and_an_epoch_too() -> None:
    log = a_log()
    offsets = a_batch(producer_id=P, transactional=True)
    refused = log.append(offsets, leader_epoch=0, wall_ms=T0, origin=Origin.COORDINATOR)
    assert refused == STATE
    guard = a_guard(log, sequence=-1)
    for proof in (guard, None):
        done = log.append(offsets, leader_epoch=0, wall_ms=T0, origin=Origin.COORDINATOR, guard=proof)
        assert isinstance(done, Appended)
    mark(log, epoch=1, bumps=True)
    assert log.append(offsets, leader_epoch=0, wall_ms=T0, origin=Origin.COORDINATOR) == FENCED


def test_other_records_of_a_producer_are_refused_while_its_transaction_is_open() -> None:
    log = a_log()
    append(log, guard=a_guard(log))
    assert append(log, sequence=1, transactional=False) == STATE


def test_other_records_of_a_producer_are_refused_in_a_higher_epoch_too_while_its_transaction_is_open() -> None:
    log = a_log()
    append(log, epoch=3, guard=a_guard(log, epoch=3))
    assert append(log, epoch=2, transactional=False) == FENCED
    assert append(log, epoch=4, sequence=1, transactional=False) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert append(log, epoch=4, transactional=False) == STATE
    assert isinstance(append(log, epoch=3, sequence=1), Appended), "its owner goes on"
    mark(log, epoch=3)
    assert isinstance(append(log, epoch=4, transactional=False), Appended)


# Epochs of markers


def test_a_marker_of_version_1_may_have_the_epoch_of_the_records_and_none_below() -> None:
    log = a_log()
    append(log, epoch=3, guard=a_guard(log, epoch=3))
    assert mark(log, epoch=2) == FENCED
    assert isinstance(mark(log, epoch=3, coordinator_epoch=4), Appended)
    assert isinstance(mark(log, epoch=3, coordinator_epoch=4), Appended), "a repeat"
    assert mark(log, epoch=3, coordinator_epoch=3) == ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_d3_a_marker_of_version_2_is_above_the_epoch_of_the_records_or_a_repeat() -> None:
    log = a_log()
    append(log, epoch=3, guard=a_guard(log, epoch=3, bumps=True))
    assert mark(log, epoch=3, bumps=True) == FENCED, "the marker of the transaction before, come late"
    assert isinstance(mark(log, epoch=4, bumps=True), Appended)
    assert isinstance(mark(log, epoch=4, bumps=True), Appended), "sent again by the next coordinator"
    append(log, epoch=4, guard=a_guard(log, epoch=4, bumps=True))
    assert mark(log, epoch=4, bumps=True) == FENCED, "the repeat must not end the next transaction"
    log.set_high_watermark(log.end_offset)
    assert log.last_stable_offset == 3


def test_a_marker_of_the_very_last_epoch_is_taken() -> None:
    log = a_log()
    append(log, epoch=32_767, guard=a_guard(log, epoch=32_767, bumps=True))
    assert isinstance(mark(log, epoch=32_767, bumps=True), Appended)


def test_a_late_batch_of_an_ended_transaction_of_version_2_is_fenced() -> None:
    log = a_log()
    append(log, guard=a_guard(log, bumps=True))
    mark(log, epoch=1, bumps=True)
    assert append(log, sequence=1) == FENCED
    assert isinstance(append(log, epoch=1, guard=a_guard(log, epoch=1, bumps=True)), Appended), "sequences begin again"


def test_a_marker_where_nothing_is_open_moves_the_epoch_and_leaves_no_trace_for_readers() -> None:
    log = a_log()
    assert isinstance(mark(log, Marker.ABORT, epoch=2, bumps=True), Appended)
    log.set_high_watermark(1)
    assert log.last_stable_offset == 1
    assert read_at(log, 0, limit=1, with_aborted=True).aborted == []
    assert append(log, epoch=1, guard=None) == FENCED


def test_a_follower_takes_any_epoch_that_its_leader_wrote() -> None:
    """It does not know the version of a transaction, so it cannot tell a late marker from a repeated one (KIP-1228)."""
    kind = Marker.ABORT
    written = [
        a_batch(producer_id=P, epoch=5, sequence=9, transactional=True),
        Batch(build_marker(kind, producer_id=P, producer_epoch=4, coordinator_epoch=8, timestamp=T0)),
        Batch(build_marker(kind, producer_id=P, producer_epoch=3, coordinator_epoch=6, timestamp=T0)),
        a_batch(producer_id=P, epoch=2, sequence=3),
    ]
    follower = a_log()
    for at, batch in enumerate(written):
        placed = bytearray(batch.view)
        placed[:8], placed[12:16] = at.to_bytes(8), bytes(4)
        assert isinstance(follower.append_run(bytes(placed), wall_ms=T0), Appended)
    (active,) = follower.active_producers()
    assert (active.producer_epoch, active.last_sequence, active.coordinator_epoch) == (2, 3, 6)
    follower.set_high_watermark(4)
    assert follower.last_stable_offset == 4
    assert read_at(follower, 0, limit=4, with_aborted=True).aborted == [AbortedTransaction(P, 0)]


# The last stable offset


@pytest.mark.parametrize("clean", [True, False], ids=["closed", "crashed"])
def test_a_restart_does_not_forget_a_transaction_whose_marker_is_not_committed(clean: bool) -> None:
    log = a_log()
    put(log, a_batch(b"before"))
    append(log, guard=a_guard(log))
    mark(log, Marker.ABORT)
    put(log, a_batch(b"behind"))
    log.set_high_watermark(2)
    assert log.last_stable_offset == 1
    again = reopened(log, clean=clean)
    again.set_high_watermark(2)
    assert again.last_stable_offset == 1, "its marker may be cut off yet"
    again.set_high_watermark(3)
    assert again.last_stable_offset == 3
    assert read_at(again, 0, limit=3, with_aborted=True).aborted == [AbortedTransaction(P, 1)]


def test_a_truncation_brings_an_ended_transaction_back_as_an_open_one() -> None:
    log = a_log()
    append(log, guard=a_guard(log))
    mark(log, Marker.ABORT)
    log.truncate_to(1)
    log.set_high_watermark(1)
    assert log.last_stable_offset == 0
    assert log.producers.guard(P, 0, 1, bumps=False, now_ms=T0) is None


def test_the_last_stable_offset_does_not_lie_below_the_logs_start() -> None:
    log = a_log()
    append(log, guard=a_guard(log))
    put(log, a_batch(b"x"), wall_ms=T0)
    log.set_high_watermark(2)
    log.delete_records_before(1)
    assert log.last_stable_offset == 1


def test_a_snapshot_of_an_older_version_tells_no_ended_transactions_and_is_read() -> None:
    log = a_log()
    append(log, guard=a_guard(log))
    mark(log)
    whole = encode_snapshot(log.producers)
    assert decode_snapshot(whole).ended() == [(1, 0)]
    body = whole[6 : whole.index(b"ottla-ended-1")]
    assert decode_snapshot(whole[:2] + crc32c(body).to_bytes(4, "big") + body).ended() == []
