"""Compaction: its plan, the records that stay, and crashes, which neither lose nor revive records."""

from __future__ import annotations

import os
import subprocess
import sys
from random import Random

import pytest
from log_desk import (
    DAY_MS,
    T0,
    TOPIC_ID,
    a_directory,
    a_log,
    config,
    put,
    records_of,
    reopened,
    roll_and_commit,
    settings,
    sync,
)

from ottla.kernel.errors import ErrorCode
from ottla.kernel.seams import Disk
from ottla.records.batch import Batch, iterate_batches
from ottla.records.builder import build_batch
from ottla.records.compression import Codec
from ottla.records.control import Marker, build_marker
from ottla.records.reader import Record
from ottla.sim.disk import SimDisk
from ottla.sim.disk_faults import PowerCut
from ottla.storage.disk.local import LocalDisk
from ottla.storage.log import Log
from ottla.storage.maintenance import cleaning, compact_child
from ottla.storage.maintenance.compaction import (
    CompactionPlan,
    CompactionResult,
    SegmentFacts,
    cleanable_range,
    group_segments,
    install,
    plan_compaction,
)
from ottla.storage.producers.snapshot import snapshot_offsets
from ottla.storage.segment.names import LOG
from ottla.storage.segment.walk import Extent
from ottla.storage.values import Appended, LogRead, Origin

COMPACT = {"cleanup_policy": ("compact",), "internal_segment_bytes": 400, "min_cleanable_dirty_ratio": 0.01}


def a_record(log: Log, key: bytes | None, value: bytes | None, **how: int) -> int:
    producer = {name: how[name] for name in ("producer_id", "base_sequence") if name in how}
    if producer:
        producer["producer_epoch"] = 0
    body = build_batch([Record(0, how.get("timestamp", T0), key, value)], **producer)
    return put(log, Batch(body)).base_offset


def compact(log: Log, *, now_ms: int = T0, cleaned_to: int | None = None) -> CompactionResult | None:
    plan = plan_compaction(log, cleaned_to=cleaned_to, now_ms=now_ms)
    if plan is None:
        return None
    result = cleaning.run(log.disk, CompactionPlan.decoded(plan.encoded()))
    assert install(log, plan, CompactionResult.decoded(result.encoded()))
    return result


def content(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in records_of(log)]


def batches_of(log: Log) -> list[Batch]:
    found: list[Batch] = []
    for segment in log.segments:
        found += iterate_batches(segment.file.read_at(0, segment.size))
    return found


def test_the_last_value_of_each_key_stays_at_its_offset() -> None:
    log = a_log(**COMPACT)
    random = Random(1)
    newest: dict[bytes, tuple[int, bytes]] = {}
    for at in range(200):
        key, value = b"k%d" % random.randrange(20), b"v%d" % at
        newest[key] = (a_record(log, key, value), value)
    roll_and_commit(log)
    result = compact(log)
    assert result is not None and result.records_before == 200
    assert sorted(content(log)) == sorted((offset, key, value) for key, (offset, value) in newest.items())
    assert log.end_offset == 200 and log.size_bytes < 200 * 40


def test_offsets_between_the_records_that_stayed_can_still_be_read_from() -> None:
    log = a_log(**COMPACT)
    for at in range(50):
        a_record(log, b"same", b"v%d" % at)
    roll_and_commit(log)
    compact(log)
    for offset in range(50):
        found = log.read(offset, 1 << 20, limit_offset=50)
        assert isinstance(found, LogRead)
        assert [record.offset for record in records_of(log, offset)] == [49]
        found.release()


def test_a_batch_keeps_its_offsets_sequence_producer_and_codec() -> None:
    log = a_log(**COMPACT)
    records = [Record(0, T0, b"a", b"1"), Record(1, T0, b"b", b"2"), Record(2, T0, b"c", b"3")]
    body = build_batch(records, codec=Codec.ZSTD, producer_id=9, producer_epoch=0, base_sequence=0)
    log.begin_epoch(0)
    put(log, Batch(body))
    a_record(log, b"b", b"later")
    roll_and_commit(log)
    compact(log)
    first = batches_of(log)[0]
    assert (first.base_offset, first.last_offset, first.records_count) == (0, 2, 2)
    assert (first.producer_id, first.base_sequence, first.compression, first.leader_epoch) == (9, 0, Codec.ZSTD, 0)
    assert first.crc_holds()
    assert content(log) == [(0, b"a", b"1"), (2, b"c", b"3"), (3, b"b", b"later")]


def test_the_last_batch_of_a_producer_stays_empty_so_that_a_retry_is_known_after_losing_all_snapshots() -> None:
    log = a_log(**COMPACT)
    a_record(log, b"k", b"1", producer_id=5, base_sequence=0)
    a_record(log, b"k", b"2", producer_id=5, base_sequence=1)
    a_record(log, b"k", b"3")
    a_record(log, b"z", b"4")
    roll_and_commit(log)
    compact(log)
    assert content(log) == [(2, b"k", b"3"), (3, b"z", b"4")]
    for name in log.disk.list(log.directory):
        if name.endswith(".snapshot"):
            log.disk.remove(f"{log.directory}/{name}")
    again = reopened(log, recovery_point=log.end_offset)
    retry = build_batch([Record(0, T0, b"k", b"2")], producer_id=5, producer_epoch=0, base_sequence=1)
    answer = again.append(Batch(retry), leader_epoch=0, wall_ms=T0)
    assert isinstance(answer, Appended) and answer.duplicate and answer.base_offset == 1


def test_a_tombstone_stays_for_delete_retention_and_goes_in_the_next_pass_after_it() -> None:
    log = a_log(**COMPACT, delete_retention_ms=1000)
    a_record(log, b"gone", b"1")
    a_record(log, b"gone", None)
    a_record(log, b"other", b"x")
    roll_and_commit(log)
    compact(log, now_ms=T0)
    assert content(log) == [(1, b"gone", None), (2, b"other", b"x")]
    tombstone = batches_of(log)[0]
    assert tombstone.delete_horizon_ms == T0 + 1000
    assert records_of(log)[0].timestamp == T0
    a_record(log, b"other", b"y")
    roll_and_commit(log)
    compact(log, now_ms=T0 + 999, cleaned_to=3)
    assert content(log) == [(1, b"gone", None), (3, b"other", b"y")]
    a_record(log, b"other", b"z")
    roll_and_commit(log)
    compact(log, now_ms=T0 + 1000, cleaned_to=4)
    assert content(log) == [(4, b"other", b"z")]


@pytest.mark.parametrize(
    ("delete_retention_ms", "timestamp"), [(2**63 - 1, T0), (DAY_MS, T0 - 2**63 + 1)], ids=["no end", "odd timestamp"]
)
def test_a_tombstone_whose_time_cannot_be_written_down_stays(delete_retention_ms: int, timestamp: int) -> None:
    """The compaction process died of it, each time."""
    log = a_log(**COMPACT, delete_retention_ms=delete_retention_ms)
    a_record(log, b"gone", b"value")
    a_record(log, b"gone", None, timestamp=timestamp)
    for step in range(2):
        a_record(log, b"other", b"%d" % step)
        roll_and_commit(log)
        compact(log, now_ms=T0 + step * 3 * DAY_MS)
    assert content(log) == [(1, b"gone", None), (3, b"other", b"1")]


def test_records_without_a_key_do_not_survive() -> None:
    log = a_log(**COMPACT)
    a_record(log, None, b"no key")
    a_record(log, b"k", b"1")
    roll_and_commit(log)
    compact(log)
    assert content(log) == [(1, b"k", b"1")]


def test_aborted_records_go_and_markers_follow_once_their_horizon_has_passed() -> None:
    log = a_log(**COMPACT, delete_retention_ms=1000)
    a_record(log, b"k", b"committed")
    body = build_batch(
        [Record(0, T0, b"k", b"aborted")], producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True
    )
    put(log, Batch(body))
    marker = build_marker(Marker.ABORT, producer_id=5, producer_epoch=0, coordinator_epoch=1, timestamp=T0)
    put(log, Batch(marker), origin=Origin.COORDINATOR)
    a_record(log, b"other", b"x")
    roll_and_commit(log)
    assert log.segments[0].aborted.entries or log.segments[1].aborted.entries
    compact(log, now_ms=T0)
    kept = [(record.offset, record.value) for record in records_of(log) if record.key in (b"k", b"other")]
    assert kept == [(0, b"committed"), (3, b"x")]
    assert [batch.is_control for batch in batches_of(log)].count(True) == 1
    log.expire_producers(T0)
    log.expire_producers(T0 + 2 * DAY_MS)  # the last batch of a known producer stays, and so does its marker
    for step in range(1, 5):
        a_record(log, b"other", b"y")
        roll_and_commit(log)
        compact(log, now_ms=T0 + step * 2000, cleaned_to=log.bases[-2])
    assert not [batch for batch in batches_of(log) if batch.is_control or batch.is_transactional]
    assert not any(segment.aborted.entries for segment in log.segments)


def test_the_last_marker_of_a_producer_stays_empty_so_that_its_epoch_is_known_after_losing_all_snapshots() -> None:
    log = a_log(**COMPACT, delete_retention_ms=1000)
    producer = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
    put(log, Batch(build_batch([Record(0, T0, b"k", b"old")], is_transactional=True, **producer)))
    marker = build_marker(Marker.COMMIT, producer_id=5, producer_epoch=1, coordinator_epoch=3, timestamp=T0)
    put(log, Batch(marker), origin=Origin.COORDINATOR)
    for step in range(4):
        a_record(log, b"k", b"new")
        roll_and_commit(log)
        compact(log, now_ms=T0 + step * 2000, cleaned_to=log.bases[-2] if step else None)
    (left,) = [batch for batch in batches_of(log) if batch.producer_id == 5]
    assert (left.is_control, left.producer_epoch, left.records_count) == (True, 1, 0)
    for name in log.disk.list(log.directory):
        if name.endswith(".snapshot"):
            log.disk.remove(f"{log.directory}/{name}")
    again = reopened(log, recovery_point=log.end_offset)
    late = build_batch([Record(0, T0, b"k", b"late")], **producer)
    assert again.append(Batch(late), leader_epoch=0, wall_ms=T0) == ErrorCode.INVALID_PRODUCER_EPOCH
    again.expire_producers(T0)
    again.expire_producers(T0 + 2 * DAY_MS)
    a_record(again, b"k", b"newest")
    roll_and_commit(again)
    compact(again, now_ms=T0 + 2 * DAY_MS, cleaned_to=again.bases[-2])
    assert not [batch for batch in batches_of(again) if batch.producer_id == 5]


def test_records_whose_transaction_is_aborted_in_a_later_segment_take_the_place_of_none() -> None:
    log = a_log(**{**COMPACT, "internal_segment_bytes": 4000}, delete_retention_ms=1000)
    a_record(log, b"k", b"committed")
    body = build_batch(
        [Record(0, T0, b"k", b"aborted")], producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True
    )
    put(log, Batch(body))
    roll_and_commit(log)
    assert compact(log) is None, "the transaction is open"
    marker = build_marker(Marker.ABORT, producer_id=5, producer_epoch=0, coordinator_epoch=1, timestamp=T0)
    put(log, Batch(marker), origin=Origin.COORDINATOR)
    sync(log)
    log.set_high_watermark(log.end_offset)
    assert compact(log) is not None
    assert [one.value for one in records_of(log) if one.key == b"k"] == [b"committed"]
    assert log.active.aborted.entries
    a_record(log, b"other", b"x")
    roll_and_commit(log)
    compact(log, now_ms=T0 + 2000, cleaned_to=2)
    assert [one.value for one in records_of(log) if one.key in (b"k", b"other")] == [b"committed", b"x"]


def test_what_comes_in_the_place_of_compacted_records_that_were_cut_off_is_compacted_too() -> None:
    """Otherwise its tombstones would be dropped, and the records that they delete would come back."""
    directory = a_directory(SimDisk())
    options = settings(config(**COMPACT, delete_retention_ms=1000))
    topic, partition, topic_id = options.pop("topic"), options.pop("partition"), options.pop("topic_id")
    log = directory.create_log(topic, partition, topic_id, **options)  # type: ignore[arg-type]

    def pass_over(now_ms: int) -> None:
        result = compact(log, now_ms=now_ms, cleaned_to=directory.offsets.cleaned_to("t", 0))
        assert result is not None
        directory.offsets.set_cleaned_to("t", 0, result.cleaned_to)

    a_record(log, b"gone", b"1")
    for at in range(5):
        a_record(log, b"k%d" % at, b"x")
    roll_and_commit(log)
    pass_over(T0)
    log.truncate_to(1)  # by a leader that was elected uncleanly
    a_record(log, b"gone", None)
    for at in range(6):
        a_record(log, b"k%d" % at, b"y")
    for step in range(1, 4):
        roll_and_commit(log)
        pass_over(T0 + step * 2000)
        a_record(log, b"z", b"%d" % step)
    assert [record.offset for record in records_of(log) if record.key == b"gone" and record.value is not None] == []


def test_nothing_above_the_last_stable_offset_or_the_recovery_point_is_touched() -> None:
    log = a_log(**COMPACT)
    for at in range(30):
        a_record(log, b"k", b"%d" % at)
    assert log.segments_count > 2
    assert plan_compaction(log, cleaned_to=None, now_ms=T0) is None
    sync(log)
    log.set_high_watermark(log.bases[1])
    plan = plan_compaction(log, cleaned_to=None, now_ms=T0)
    assert plan is not None and plan.dirty_end == log.bases[1]


def facts(*sizes: int, newest: int = T0) -> list[SegmentFacts]:
    return [SegmentFacts(at * 100, at * 100 + 100, size, newest, newest, 8) for at, size in enumerate(sizes)]


def test_the_dirty_ratio_counts_what_came_since_the_last_pass() -> None:
    found = cleanable_range(facts(300, 100), config(**COMPACT), cleaned_to=100, limit_offset=200, now_ms=T0)
    assert (found.dirty_start, found.dirty_end, found.dirty_ratio) == (100, 200, 0.25)
    again = cleanable_range(facts(300, 100), config(**COMPACT), cleaned_to=None, limit_offset=200, now_ms=T0)
    assert again.dirty_ratio == 1.0


def test_segments_younger_than_the_minimum_lag_are_left_alone() -> None:
    options = config(**COMPACT, min_compaction_lag_ms=1000)
    young = cleanable_range(facts(10, newest=T0), options, cleaned_to=None, limit_offset=100, now_ms=T0 + 999)
    assert young.dirty_bytes == 0
    old = cleanable_range(facts(10, newest=T0), options, cleaned_to=None, limit_offset=100, now_ms=T0 + 1001)
    assert old.dirty_bytes == 10


def test_the_maximum_lag_compacts_however_little_is_dirty() -> None:
    log = a_log(**{**COMPACT, "min_cleanable_dirty_ratio": 1.0}, max_compaction_lag_ms=1000)
    a_record(log, b"k", b"1")
    a_record(log, b"k", b"2")
    roll_and_commit(log)
    assert plan_compaction(log, cleaned_to=None, now_ms=T0 + 1000) is None
    assert plan_compaction(log, cleaned_to=None, now_ms=T0 + 1001) is not None


def test_small_neighbours_become_one_segment() -> None:
    groups = group_segments(facts(100, 100, 100, 350), segment_bytes=300, index_bytes=1000)
    assert [[segment.base_offset for segment in group] for group in groups] == [[0, 100, 200], [300]]
    log = a_log(**COMPACT)
    for at in range(60):
        a_record(log, b"k%d" % (at % 3), b"%d" % at)
    roll_and_commit(log)
    before = log.segments_count
    compact(log)
    roll_and_commit(log) if log.active.size else None
    compact(log, cleaned_to=0)
    assert log.segments_count < before


def test_producer_snapshots_of_segments_that_became_one_go() -> None:
    log = a_log(**COMPACT)
    cleaned_to = None
    for number in range(60):
        a_record(log, b"k%d" % (number % 3), b"v" * 80, producer_id=5, base_sequence=number)
        if number % 12 == 11:
            roll_and_commit(log)
            result = compact(log, cleaned_to=cleaned_to)
            assert result is not None
            cleaned_to = result.cleaned_to
    a_record(log, b"k", b"last", producer_id=5, base_sequence=60)
    assert log.move_recovery_point()
    sync(log)
    assert set(snapshot_offsets(log.disk, log.directory)) <= set(log.bases)
    again = reopened(log, recovery_point=log.recovery_point)
    assert again.recovered.remarks == () and again.active_producers() == log.active_producers()


def test_more_keys_than_fit_in_memory_take_more_passes_and_lose_nothing() -> None:
    log = a_log(**COMPACT)
    newest = {}
    for at in range(100):
        key = b"k%d" % (at % 40)
        newest[key] = (a_record(log, key, b"%d" % at), key, b"%d" % at)
    roll_and_commit(log)
    cleaned_to = None
    for _ in range(20):
        plan = plan_compaction(log, cleaned_to=cleaned_to, now_ms=T0)
        if plan is None:
            break
        result = cleaning.run(log.disk, plan._replace(max_keys=10))
        assert install(log, plan, result)
        assert result.cleaned_to > (cleaned_to or 0)
        cleaned_to = result.cleaned_to
    assert cleaned_to == log.bases[-1]
    assert sorted(content(log)) == sorted(newest.values())


def test_a_tombstone_behind_the_keys_of_a_pass_stays_for_delete_retention_from_the_pass_that_removes_its_values() -> (
    None
):
    log = a_log(**COMPACT | {"delete_retention_ms": 1000, "internal_segment_bytes": 4000})
    a_record(log, b"gone", b"value")
    a_record(log, b"other", b"value")
    a_record(log, b"gone", None)
    a_record(log, b"last", b"value")
    roll_and_commit(log)

    def compact_two_keys(cleaned_to: int | None, now_ms: int) -> int:
        plan = plan_compaction(log, cleaned_to=cleaned_to, now_ms=now_ms)
        assert plan is not None
        plan = plan._replace(max_keys=2)
        result = cleaning.run(log.disk, plan)
        assert install(log, plan, result)
        return result.cleaned_to

    cleaned_to = compact_two_keys(None, T0)
    assert cleaned_to == 2 and (0, b"gone", b"value") in content(log)
    compact_two_keys(cleaned_to, T0 + 5000)
    assert content(log) == [(1, b"other", b"value"), (2, b"gone", None), (3, b"last", b"value")]


def test_a_log_that_changed_meanwhile_is_left_as_it_is() -> None:
    log = a_log(**COMPACT)
    for at in range(40):
        a_record(log, b"k", b"%d" % at)
    roll_and_commit(log)
    plan = plan_compaction(log, cleaned_to=None, now_ms=T0)
    assert plan is not None
    result = cleaning.run(log.disk, plan)
    log.truncate_to(3)
    assert not install(log, plan, result)
    assert content(log) == [(at, b"k", b"%d" % at) for at in range(3)]
    assert not [name for name in log.disk.list(log.directory) if "cleaned" in name]


def test_damage_that_was_found_meanwhile_is_not_looked_for_in_other_files() -> None:
    log = a_log(**COMPACT)
    for key in (b"a", b"b", b"c", b"d", b"e", b"a", b"f"):
        a_record(log, key, b"v")
    roll_and_commit(log)
    plan = plan_compaction(log, cleaned_to=None, now_ms=T0)
    assert plan is not None
    result = cleaning.run(log.disk, plan)
    third = log.segments[0].headers_from(0)[2]
    log.damage.note(0, [Extent(0, 2, 0, third.position)])
    install(log, plan, result)
    assert records_of(log, 2)[0].offset == 2
    assert not [name for name in log.disk.list(log.directory) if name.endswith(".cleaned")]


def test_a_slice_of_an_old_segment_stays_readable_while_it_is_held(tmp_path: os.PathLike[str]) -> None:
    log = a_log(LocalDisk(), directory=f"{tmp_path}/t-0", **COMPACT)
    for at in range(40):
        a_record(log, b"k", b"%d" % at)
    roll_and_commit(log)
    found = log.read(0, 200, limit_offset=40)
    assert isinstance(found, LogRead)
    expected = found.slices[0].read()
    compact(log)
    assert found.slices[0].read() == expected
    found.release()
    assert content(log) == [(39, b"k", b"39")]


def test_the_child_process_does_the_same_and_is_throttled(tmp_path: os.PathLike[str]) -> None:
    logs = []
    for name in ("a-0", "b-0"):
        log = a_log(LocalDisk(), directory=f"{tmp_path}/{name}", **COMPACT)
        for at in range(60):
            a_record(log, b"k%d" % (at % 7), b"%d" % at)
        roll_and_commit(log)
        logs.append(log)
    compact(logs[0])
    plan = plan_compaction(logs[1], cleaned_to=None, now_ms=T0)
    assert plan is not None
    child = subprocess.run(
        compact_child.command(1e9), input=plan.encoded(), capture_output=True, check=True, close_fds=True
    )
    assert install(logs[1], plan, CompactionResult.decoded(child.stdout))
    assert content(logs[0]) == content(logs[1])
    throttle = compact_child.CompactionThrottle(1000.0)
    began = compact_child.time.monotonic()
    throttle.took(300)
    assert compact_child.time.monotonic() - began >= 0.25


@pytest.mark.parametrize(("position", "sentence"), [(64, b"CRC"), (70, b"do not follow on")])
def test_the_child_refuses_a_damaged_log(tmp_path: os.PathLike[str], position: int, sentence: bytes) -> None:
    log = a_log(LocalDisk(), directory=f"{tmp_path}/t-0", **COMPACT)
    for at in range(40):
        a_record(log, b"k", b"%d" % at)
    roll_and_commit(log)
    plan = plan_compaction(log, cleaned_to=None, now_ms=T0)
    assert plan is not None
    log.segments[0].file.write_at(position, [b"\xff"])
    child = subprocess.run(
        [sys.executable, "-m", "ottla.storage.maintenance.compact_child"],
        input=plan.encoded(),
        capture_output=True,
        check=False,
    )
    assert child.returncode == compact_child.DAMAGED_STATUS and sentence in child.stderr


# -- crashes ---


def _prepared(disk: Disk) -> tuple[Log, list[tuple[int, bytes | None, bytes | None]]]:
    directory = a_directory(disk)
    log = directory.create_log(
        "t",
        0,
        TOPIC_ID,
        config=config(**{**COMPACT, "internal_segment_bytes": 230}),
        wall_ms=T0,
        producer_expiration_ms=DAY_MS,
        on_synced=lambda _: None,
    )
    for at in range(9):
        a_record(log, b"k%d" % (at % 2), b"%d" % at, producer_id=4, base_sequence=at)
    roll_and_commit(log)
    directory.checkpoint_recovery_points()
    return log, content(log)


def _survivors(disk: SimDisk, before: list[tuple[int, bytes | None, bytes | None]]) -> None:
    directory = a_directory(disk)
    (found,) = directory.found
    options = settings(config(**{**COMPACT, "internal_segment_bytes": 230}))
    log = directory.open_log(
        found,
        config=options["config"],  # type: ignore[arg-type]
        wall_ms=T0,
        producer_expiration_ms=DAY_MS,
        on_synced=lambda _: None,
    )
    assert log.damaged_at is None and log.end_offset == 9
    now = content(log)
    assert {offset for offset, _, _ in now} >= {7, 8}, now
    assert set(now) <= set(before)
    offsets = [offset for offset, _, _ in now]
    assert offsets == sorted(set(offsets))
    assert log.segments[-1].next_offset == 9
    assert not [name for name in disk.list(log.directory) if name.endswith((".cleaned", ".swap", ".deleted"))]
    retry = build_batch([Record(0, T0, b"k0", b"8")], producer_id=4, producer_epoch=0, base_sequence=8)
    answer = log.append(Batch(retry), leader_epoch=0, wall_ms=T0)
    assert isinstance(answer, Appended) and answer.duplicate and answer.base_offset == 8


def test_every_legal_crash_state_of_a_compaction_keeps_the_last_values_once_each() -> None:
    random = Random(7)
    cut, states = 0, 0
    while True:
        disk = SimDisk()
        log, before = _prepared(disk)
        plan = plan_compaction(log, cleaned_to=None, now_ms=T0)
        assert plan is not None and plan.groups == [[0], [3], [6]]
        plan = plan._replace(groups=[[0, 3], [6]], ends=[6, 9])
        disk.cut_after = disk.operations + cut
        try:
            install(log, plan, cleaning.run(disk, plan))
            ended = True
        except PowerCut:
            ended = False
        disk.cut_after = None
        try:
            legal = list(disk.legal_states(limit=3000))
        except ValueError:
            legal = []
            for _ in range(300):  # too many before the child's sync: they differ only in `.cleaned` files
                legal.append(_drawn(disk, random))
        for state in legal:
            states += 1
            _survivors(state, before)
        if ended:
            assert states > 500
            return
        cut += 1


def _drawn(disk: SimDisk, random: Random) -> SimDisk:
    import copy

    state = copy.deepcopy(disk)
    state.crash(random)
    return state


@pytest.mark.parametrize("seed", range(20))
def test_what_a_consumer_of_all_keys_sees_does_not_depend_on_compaction(seed: int) -> None:
    random = Random(seed)
    log = a_log(**{**COMPACT, "internal_segment_bytes": random.choice((200, 500, 2000))}, delete_retention_ms=100)
    state: dict[bytes, bytes] = {}
    cleaned_to: int | None = None
    now = T0
    for _ in range(12):
        for _ in range(random.randrange(30)):
            key = b"k%d" % random.randrange(8)
            value = None if random.random() < 0.2 else b"v%d" % random.randrange(10**6)
            a_record(log, key, value, timestamp=now)
            state.pop(key, None)
            if value is not None:
                state[key] = value
        if random.random() < 0.6 and log.active.size:
            roll_and_commit(log)
            result = compact(log, now_ms=now, cleaned_to=cleaned_to)
            cleaned_to = result.cleaned_to if result is not None else cleaned_to
        now += random.randrange(200)
        seen: dict[bytes, bytes] = {}
        for record in records_of(log):
            assert record.key is not None
            seen.pop(record.key, None)
            if record.value is not None:
                seen[record.key] = record.value
        assert seen == state


@pytest.mark.parametrize("clean", [True, False])
def test_a_segment_of_which_compaction_left_an_empty_batch_opens_without_a_remark(clean: bool) -> None:
    """An empty time index is right for it."""
    log = a_log(**COMPACT)
    a_record(log, b"k", b"1", producer_id=5, base_sequence=0)
    roll_and_commit(log)
    a_record(log, b"k", b"2" * 320)
    roll_and_commit(log)
    compact(log, now_ms=T0)
    assert batches_of(log)[0].records_count == 0 and len(log.bases) == 3
    log.close(clean=clean)
    again = reopened(log, clean=clean, recovery_point=log.end_offset)
    assert again.recovered.remarks == () and again.recovered.rebuilt_indexes == 0
    assert [record.value for record in records_of(again)] == [b"2" * 320]


@pytest.mark.parametrize("clean", [True, False])
def test_a_segment_of_many_emptied_batches_opens_without_a_remark(clean: bool) -> None:
    """Its offset index has entries then, and its time index none."""
    log = a_log(**COMPACT | {"internal_segment_bytes": 20_000})
    for producer_id in range(200):
        a_record(log, b"k", b"1", producer_id=producer_id, base_sequence=0)
    roll_and_commit(log)
    a_record(log, b"k", b"2")
    a_record(log, b"k", b"3" * 19_000)
    roll_and_commit(log)
    compact(log)
    assert log.segments[0].max_timestamp == -1 and log.segments[0].index.count > 1
    log.close(clean=clean)
    again = reopened(log, clean=clean, recovery_point=log.end_offset)
    assert again.recovered.remarks == () and again.recovered.rebuilt_indexes == 0
    assert [record.value for record in records_of(again)] == [b"3" * 19_000]


@pytest.mark.parametrize("clean", [True, False])
def test_a_segment_as_it_was_before_its_compaction_does_not_fit_its_index(clean: bool) -> None:
    """It ends at the same offset, and is shorter than one interval of the index."""
    log = a_log(**COMPACT)
    for value in (b"1", b"2", b"3"):
        a_record(log, b"k", value)
    a_record(log, b"other", b"4")
    roll_and_commit(log)
    a_record(log, b"k", b"5" * 320)
    roll_and_commit(log)
    path = log.segments[0].path(LOG)
    before = log.disk.read(path)
    compact(log)
    assert [value for _, _, value in content(log)] == [b"4", b"5" * 320] and log.bases == [0, 4, 5]
    log.close(clean=clean)
    disk = log.disk
    file = disk.open(path)
    file.truncate(0)
    file.write_at(0, [before])
    file.sync()
    file.release()
    again = reopened(log, clean=clean, recovery_point=log.end_offset)
    (remark,) = again.recovered.remarks
    assert "if the file is from before a compaction, older values of its keys are back" in remark.what
    assert (remark.first_offset, remark.next_offset) == (0, 4)


def test_the_index_of_a_compacted_segment_fits_it() -> None:
    log = a_log(**COMPACT)
    for number in range(6):
        a_record(log, b"k%d" % (number % 4), b"%d" % number)
    roll_and_commit(log)
    compact(log)
    log.close(clean=True)
    again = reopened(log, clean=True, recovery_point=log.end_offset)
    assert again.recovered.remarks == () and again.recovered.rebuilt_indexes == 0
    for offset, *_ in content(log):
        read = again.read(offset, 1, limit_offset=again.end_offset)
        assert isinstance(read, LogRead) and Batch(read.data()).last_offset >= offset
