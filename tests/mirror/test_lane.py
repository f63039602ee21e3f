"""One partition's copy: what is sent, in which order, and that a restart doubles and loses nothing."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from tests.mirror.lanes import PRODUCER, Target, a_lane, batch, piece

from ottla.client.model import AbortedRange
from ottla.kernel.errors import ApiError
from ottla.mirror.batches import MirrorBatch
from ottla.mirror.lane import Lane, LaneState, LaneStopped
from ottla.records.batch import Batch, check_batch
from ottla.records.compression import Codec
from ottla.records.control import Marker, build_marker
from ottla.records.header import HEADER_SIZE
from ottla.records.reader import read_records


def test_a_batch_is_copied_as_it_is_compressed_under_the_mirrors_own_id_and_sequence() -> None:
    lane = a_lane()
    source = batch(40, ["a"] * 50, codec=Codec.GZIP, producer_id=5, producer_epoch=2, base_sequence=9, leader_epoch=3)
    lane = a_lane(LaneState(40, 0, 7))
    lane.take(piece(40, source))
    out = lane.next_batch()
    assert out is not None
    copy = Batch(out.batch)
    assert bytes(copy.payload) == source[HEADER_SIZE:]
    assert (copy.producer_id, copy.producer_epoch, copy.base_sequence) == (PRODUCER, 0, 7)
    assert not check_batch(copy)  # as a broker looks at it: base offset, CRC, counts
    assert (copy.max_timestamp, copy.compression) == (Batch(source).max_timestamp, Codec.GZIP)


def test_markers_and_aborted_batches_are_left_out_and_a_committed_one_leaves_its_transaction() -> None:
    lane = a_lane()
    aborted = batch(0, ["no"] * 2, producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True)
    abort = bytearray(build_marker(Marker.ABORT, producer_id=5, producer_epoch=0, coordinator_epoch=0, timestamp=1))
    abort[7] = 2
    good = batch(3, ["yes"], producer_id=5, producer_epoch=0, base_sequence=2, is_transactional=True)
    lane.take(piece(0, aborted, bytes(abort), good, aborted=[AbortedRange(5, 0)]))
    out = lane.next_batch()
    assert out is not None
    assert not Batch(out.batch).is_transactional
    assert [record.value for record in read_records(Batch(out.batch))] == [b"yes"]
    lane.landed(out, 0)
    assert lane.place.map.translate(1) is None
    assert (lane.place.map.translate(3), lane.place.map.translate(4)) == (0, 1)


def test_a_compacted_batch_is_built_dense_and_its_holes_are_in_the_map() -> None:
    lane = a_lane()
    whole = Batch(batch(0, ["a", "b", "c", "d"]))
    from ottla.records.builder import retain

    lane.take(piece(0, retain(whole, [each for each in read_records(whole) if each.offset != 1])))
    out = lane.next_batch()
    assert out is not None
    assert not check_batch(Batch(out.batch))
    assert [record.value for record in read_records(Batch(out.batch))] == [b"a", b"c", b"d"]
    lane.landed(out, 10)
    assert [lane.place.map.translate(offset) for offset in (0, 1, 2, 3, 4)] == [10, 11, 11, 12, 13]


def test_a_batch_that_begins_before_the_place_gives_only_what_is_behind_it() -> None:
    lane = a_lane(LaneState(2, 0))
    lane.take(piece(2, batch(0, ["a", "b", "c"])))
    out = lane.next_batch()
    assert out is not None
    assert [record.value for record in read_records(Batch(out.batch))] == [b"c"]


def test_one_batch_is_under_way_until_the_broker_knows_the_producer_and_then_five() -> None:
    lane = a_lane()
    lane.take(piece(0, *(batch(at, ["a"]) for at in range(9))))
    first = lane.next_batch()
    assert first is not None
    assert lane.next_batch() is None
    lane.landed(first, 0)
    assert [lane.next_batch() is not None for _ in range(6)] == [True] * 5 + [False]


def test_batches_behind_a_failed_one_are_sent_again_in_their_order() -> None:
    lane, sent = a_lane(), []
    lane.take(piece(0, *(batch(at, ["a"]) for at in range(4))))
    first = lane.next_batch()
    assert first is not None
    lane.landed(first, 0)
    sent = [out for _ in range(3) if (out := lane.next_batch()) is not None]
    for out in sent:
        lane.failed(out)
    again = []
    while (out := lane.next_batch()) is not None:
        again.append(out)
        lane.landed(out, len(again))
    assert again == sent
    assert lane.is_idle


def test_a_damaged_batch_is_never_copied() -> None:
    damaged = bytearray(batch(0, ["a", "b"]))
    damaged[-1] ^= 1
    with pytest.raises(ApiError, match="CORRUPT_MESSAGE"):
        a_lane().take(piece(0, bytes(damaged)))


def test_a_restart_at_any_step_of_300_runs_with_lost_answers_doubles_nothing_and_loses_nothing() -> None:
    dice = random.Random(4)
    for _ in range(300):
        log, offset = [], 0
        for _ in range(dice.randrange(1, 12)):
            count = dice.randrange(1, 4)
            log.append(batch(offset, [f"{offset + each}" for each in range(count)]))
            offset += count + dice.choice((0, 0, 2))
        target, noted = Target(), LaneState(0, 0)
        while Batch(log[-1]).next_offset > noted.upstream:
            noted = _one_run(dice, log, target, noted)
        values = [record.value for each in target.log for record in read_records(Batch(each))]
        assert values == [record.value for each in log for record in read_records(Batch(each))]
        copied = {int(value or b""): at for at, value in enumerate(values)}
        assert all(noted.map.translate(offset) == at for offset, at in copied.items())


def _one_run(dice: random.Random, log: list[bytes], target: Target, noted: LaneState) -> LaneState:
    """Copy until a kill at a random step; the place that was noted last, maybe long before."""
    lane = a_lane(_copy(noted), target.behind(noted.downstream))
    under_way: list[MirrorBatch] = []
    for _ in range(dice.randrange(1, 40)):
        match dice.randrange(4):
            case 0:
                behind = [each for each in log if Batch(each).next_offset > lane.position][: dice.randrange(1, 4)]
                if behind:
                    lane.take(piece(lane.position, *behind))
            case 1 if (out := lane.next_batch()) is not None:
                under_way.append(out)
            case 2 if under_way:
                _answer(dice, lane, under_way.pop(0), target)
            case 3 if dice.random() < 0.3:
                noted = _copy(lane.place)
        if lane.recovers and not lane.in_flight:
            lane.recovered(target.behind(lane.place.downstream))
    for out in under_way:
        if dice.random() < 0.5:
            target.append(out)  # the process is dead, and the request was on its way
    return noted


def _answer(dice: random.Random, lane: Lane, out: MirrorBatch, target: Target) -> None:
    fate = dice.random()
    if fate < 0.2:
        lane.failed(out)  # it never arrived
        return
    at = target.append(out)
    if fate < 0.4 or at is None:
        lane.failed(out)  # its answer was lost
    else:
        lane.landed(out, at)


def _copy(place: LaneState) -> LaneState:
    return replace(place, map=place.map.copy())


def test_a_target_that_holds_other_records_than_the_source_stops_the_partition() -> None:
    lane, target = a_lane(), Target()
    lane.take(piece(0, batch(0, ["a", "b"])))
    out = lane.next_batch()
    assert out is not None
    target.append(out)
    again = a_lane(LaneState(0, 0), target.behind(0))
    with pytest.raises(LaneStopped, match="holds other records at offset 0"):
        again.take(piece(0, batch(0, ["a", "other"])))


def test_what_retention_has_taken_at_the_target_counts_as_copied() -> None:
    lane, target = a_lane(), Target()
    batches = [batch(0, ["a", "b"]), batch(2, ["c"]), batch(3, ["d"])]
    lane.take(piece(0, *batches))
    while (out := lane.next_batch()) is not None:
        lane.landed(out, target.append(out) or 0)
    again = a_lane(LaneState(0, 0), target.behind(3))
    again.take(piece(0, *batches))
    assert again.next_batch() is None
    assert [again.place.map.translate(offset) for offset in range(5)] == [0, 1, 2, 3, 4]
