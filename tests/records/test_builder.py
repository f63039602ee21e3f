"""Builders: record by record, all at once, and in place of an existing batch."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.kernel.errors import ErrorCode
from ottla.records import compiled
from ottla.records.batch import Batch, check_batch, scan_records
from ottla.records.builder import BatchBuilder, build_batch, estimate_size, retain
from ottla.records.compression import Codec
from ottla.records.control import EndOfTransaction, Marker, MarkerBatch, build_marker, read_marker
from ottla.records.reader import Record, read_records

NOW = 1_700_000_000_000
HEADERS = st.lists(st.tuples(st.text(max_size=9), st.none() | st.binary(max_size=20)), max_size=3)


@settings(max_examples=150, deadline=None)
@given(
    st.integers(-(2**63), 2**63 - 1), st.none() | st.binary(max_size=300), st.none() | st.binary(max_size=300), HEADERS
)
def test_a_record_never_takes_more_than_was_estimated(timestamp, key, value, headers):
    builder = BatchBuilder(base_timestamp=0)
    before = builder.size
    assert builder.add(timestamp, key, value, headers)
    assert builder.size - before <= estimate_size(key, value, headers)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_a_record_that_a_signal_has_interrupted_is_not_in_the_batch(codec: Codec, monkeypatch: pytest.MonkeyPatch):
    """Ctrl-C raises between two calls, also behind the one that has put the record's bytes down."""
    builder = BatchBuilder(codec=codec)
    assert builder.add(NOW, None, b"first")
    append = compiled.append_record

    def interrupted(*arguments: object) -> None:
        append(*arguments)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    for last in (b"second", b"third"):
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(compiled, "append_record", interrupted)
            builder.add(NOW, None, b"interrupted")
        whole = Batch(builder.build())
        check_batch(whole)
        assert [record.value for record in read_records(whole)][-1] != b"interrupted"
        assert builder.add(NOW, None, last)
    assert [record.value for record in read_records(Batch(builder.build()))] == [b"first", b"second", b"third"]


def test_a_run_of_records_is_as_the_same_records_one_by_one(part):
    values = [b"v%d" % n if n % 3 else None for n in range(40)]
    keys = [b"k" * n for n in range(40)]
    times = [NOW - n for n in range(40)]
    run, single = BatchBuilder(max_bytes=700), BatchBuilder()
    first = run.add_run(times, keys, values, [("h", b"1")])
    for n in range(first):
        single.add(times[n], keys[n], values[n], [("h", b"1")])
    assert 0 < first < 40
    assert run.build() == single.build()
    assert run.add_run(times, keys, values, [("h", b"1")], start=first) == 0
    rest = BatchBuilder(max_bytes=10)
    assert rest.add_run(times, keys, values, start=39) == 1  # the first always fits
    (record,) = read_records(Batch(rest.build()))
    assert (record.timestamp, record.key, record.value) == (times[39], keys[39], values[39])


def test_a_run_that_a_signal_has_interrupted_is_not_in_the_batch(monkeypatch: pytest.MonkeyPatch):
    builder = BatchBuilder()
    builder.add_run(NOW, None, [b"first", b"second"])
    append = compiled.append_run

    def interrupted(*arguments: object) -> None:
        append(*arguments)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(compiled, "append_run", interrupted)
        builder.add_run(NOW, None, [b"interrupted"])
    builder.add_run(NOW, None, [b"third"])
    assert [record.value for record in read_records(Batch(builder.build()))] == [b"first", b"second", b"third"]


def test_a_builder_says_when_it_is_full_and_always_takes_the_first(part):
    builder = BatchBuilder(max_bytes=500)
    assert builder.add(NOW, b"k", bytes(1000))
    assert not builder.add(NOW, b"k", b"v")
    assert builder.records_count == 1
    builder = BatchBuilder(max_bytes=500)
    added = 0
    while builder.add(NOW + added, b"k", b"v" * 20, [("h", None)]):
        added += 1
    batch = builder.build()
    assert 400 < len(batch) <= 500
    assert len(read_records(Batch(batch))) == added == builder.records_count


def test_a_retry_keeps_its_records_and_takes_another_sequence(part):
    builder = BatchBuilder(codec=Codec.GZIP)
    for n in range(4):
        builder.add(NOW - n, None, b"v%d" % n)
    first, again = (
        Batch(builder.build(producer_id=3, producer_epoch=e, base_sequence=s)) for e, s in ((0, 10), (1, 0))
    )
    assert (first.base_sequence, again.base_sequence, again.producer_epoch) == (10, 0, 1)
    assert read_records(first) == read_records(again)
    assert first.max_timestamp == NOW and first.base_timestamp == NOW
    for batch in (first, again):
        assert check_batch(batch) is ErrorCode.NONE
        assert scan_records(batch).error is ErrorCode.NONE


def test_offsets_only_grow():
    builder = BatchBuilder(base_offset=10)
    builder.add(NOW, b"k", b"v", offset=14)
    with pytest.raises(ValueError, match="offset 14"):
        builder.add(NOW, b"k", b"v", offset=14)


def test_a_record_of_a_timestamp_far_away_comes_back(part):
    times = [NOW, 0, -1, 2**62, NOW + 5]
    batch = Batch(build_batch([Record(0, time, None, b"v") for time in times]))
    assert [record.timestamp for record in read_records(batch)] == times


@pytest.mark.parametrize("codec", list(Codec))
def test_compaction_keeps_offsets_sequence_and_codec(codec, part):
    records = [Record(0, NOW + n, b"k%d" % n, b"v", (("h", b"x"),)) for n in range(9)]
    batch = Batch(build_batch(records, base_offset=100, codec=codec, producer_id=5, producer_epoch=1, base_sequence=7))
    kept = [record for record in read_records(batch) if record.offset in (103, 107)]
    fewer = Batch(retain(batch, kept))
    assert read_records(fewer) == kept
    assert (fewer.base_offset, fewer.next_offset, fewer.last_sequence) == (100, 109, 15)
    assert (fewer.producer_id, fewer.producer_epoch, fewer.compression) == (5, 1, codec)
    assert check_batch(fewer, from_client=False) is ErrorCode.NONE


def test_an_emptied_batch_still_holds_its_place():
    batch = Batch(build_batch([Record(0, NOW, b"k", b"v")] * 3, base_offset=100, codec=Codec.LZ4))
    empty = Batch(retain(batch, []))
    assert (empty.size, empty.records_count, empty.next_offset) == (61, 0, 103)
    assert check_batch(empty, from_client=False) is ErrorCode.NONE
    assert read_records(empty) == []


def test_a_delete_horizon_takes_the_base_timestamps_place_and_stays(part):
    batch = Batch(build_batch([Record(0, NOW + n, b"k", None) for n in range(3)]))
    assert batch.delete_horizon_ms is None
    marked = Batch(retain(batch, read_records(batch), delete_horizon_ms=NOW + 10**9))
    assert marked.delete_horizon_ms == NOW + 10**9
    assert read_records(marked) == read_records(batch)
    again = Batch(retain(marked, read_records(marked)[1:]))
    assert again.delete_horizon_ms == NOW + 10**9
    assert read_records(again) == read_records(batch)[1:]


def test_append_time_survives_compaction():
    batch = Batch(build_batch([Record(0, NOW + n, b"k", None) for n in range(3)], append_time_ms=NOW + 9))
    fewer = Batch(retain(batch, read_records(batch)[2:]))
    assert fewer.is_append_time and fewer.max_timestamp == NOW + 9


def test_markers_say_how_a_transaction_ended():
    for marker in Marker:
        built = build_marker(marker, producer_id=4, producer_epoch=2, coordinator_epoch=9, timestamp=NOW)
        batch = Batch(built)
        assert batch.is_control and batch.is_transactional and batch.base_sequence == -1
        assert read_marker(batch) == EndOfTransaction(marker, 9)
        assert check_batch(batch) is ErrorCode.INVALID_RECORD
        ready = MarkerBatch(EndOfTransaction(marker, 9), producer_id=4, producer_epoch=2, timestamp=NOW)
        assert bytes(ready.view) == built
        assert read_marker(ready) == EndOfTransaction(marker, 9)
    assert read_marker(Batch(build_batch([Record(0, NOW, b"k", b"v")]))) is None
    other = build_batch([Record(0, NOW, b"\x00\x00\x00\x05", b"")], is_control=True)
    assert read_marker(Batch(other)) is None
