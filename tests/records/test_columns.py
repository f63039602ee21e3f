"""RecordColumns: Arrow's view of the buffers, rows that are left out, and encoding."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.kernel.errors import ErrorCode
from ottla.records.batch import Batch, check_batch, scan_records
from ottla.records.builder import build_batch
from ottla.records.columns import (
    BinaryColumn,
    HeaderColumn,
    RecordColumns,
    TimeUnit,
    decode_columns,
    encode_columns,
)
from ottla.records.compression import Codec
from ottla.records.control import Marker, build_marker
from ottla.records.faults import CorruptRecords
from ottla.records.reader import Record, read_records, read_run

NOW = 1_700_000_000_000
RECORDS = st.lists(
    st.builds(
        Record,
        st.just(0),
        st.integers(NOW, NOW + 1000),
        st.none() | st.binary(max_size=20),
        st.none() | st.binary(max_size=60),
        st.lists(st.tuples(st.text(max_size=4), st.none() | st.binary(max_size=9)), max_size=2).map(tuple),
    ),
    max_size=9,
)


def binary(column: BinaryColumn, rows: int, kind: pa.DataType) -> pa.Array:
    buffers = [None if part is None else pa.py_buffer(part) for part in column[:3]]
    array = pa.Array.from_buffers(kind, rows, buffers, column.null_count)
    array.validate(full=True)
    return array


def as_arrow(columns: RecordColumns) -> list[Record]:
    """The rows as Arrow reads them out of the buffers."""
    rows = columns.rows
    key, value = (binary(column, rows, pa.binary()).to_pylist() for column in (columns.key, columns.value))
    offsets, timestamps = (
        pa.Array.from_buffers(pa.int64(), rows, [None, pa.py_buffer(part)]).to_pylist()
        for part in (columns.offset, columns.timestamp)
    )
    lists: list[tuple[tuple[str, bytes | None], ...]] = [()] * rows
    if columns.headers is not None:
        headers = columns.headers
        names = binary(headers.names, headers.entries, pa.string())
        contents = binary(headers.contents, headers.entries, pa.binary())
        pairs = pa.StructArray.from_arrays([names, contents], ["key", "value"])
        array = pa.Array.from_buffers(
            pa.list_(pairs.type),
            rows,
            [pa.py_buffer(headers.validity), pa.py_buffer(headers.offsets)],
            headers.null_count,
            children=[pairs],
        )
        array.validate(full=True)
        lists = [tuple((pair["key"], pair["value"]) for pair in row or ()) for row in array.to_pylist()]
    return [Record(*row) for row in zip(offsets, timestamps, key, value, lists, strict=True)]


def a_run(*batches: list[Record], codec: Codec = Codec.NONE) -> bytes:
    out, offset = b"", 0
    for records in batches:
        out += build_batch(records, base_offset=offset, codec=codec)
        offset += len(records)
    return out


@settings(max_examples=80, deadline=None)
@given(st.lists(RECORDS, max_size=4), st.sampled_from(list(Codec)))
def test_arrow_reads_the_records_out_of_the_buffers(batches, codec):
    run = a_run(*batches, codec=codec)
    columns = decode_columns(run, headers=True)
    assert as_arrow(columns) == read_run(run)
    assert columns.position == len(run)
    assert columns.next_offset == sum(map(len, batches))


@pytest.mark.parametrize("codec", list(Codec))
def test_only_the_range_asked_for_comes(codec, part):
    run = a_run(*[[Record(0, NOW, b"k", b"v%d" % n) for n in range(10)]] * 3, codec=codec)
    columns = decode_columns(run, start_offset=7, end_offset=13)
    assert [record.offset for record in as_arrow(columns)] == list(range(7, 13))
    assert columns.next_offset >= 13
    assert columns.position < len(run)
    nothing = decode_columns(run, start_offset=30)
    assert (nothing.rows, nothing.next_offset, nothing.position) == (0, 30, len(run))
    before = decode_columns(run, start_offset=5, end_offset=5)
    assert before.rows == 0


def test_micros_are_millis_times_a_thousand_and_append_time_is_the_batchs(part):
    run = build_batch([Record(0, NOW + n, None, b"") for n in range(2)])
    run += build_batch([Record(0, 5, None, b"")] * 2, base_offset=2, append_time_ms=NOW + 9)
    columns = decode_columns(run, unit=TimeUnit.MICROS)
    assert [record.timestamp for record in as_arrow(columns)] == [1000 * (NOW + n) for n in (0, 1, 9, 9)]
    assert pa.Array.from_buffers(pa.int32(), 4, [None, pa.py_buffer(columns.timestamp_type)]).to_pylist() == [
        0,
        0,
        1,
        1,
    ]


def transactional(offset: int, producer: int, text: bytes) -> bytes:
    records = [Record(0, NOW, b"k", text)]
    return build_batch(
        records, base_offset=offset, producer_id=producer, producer_epoch=0, base_sequence=0, is_transactional=True
    )


def marker(offset: int, producer: int, kind: Marker) -> bytes:
    built = build_marker(kind, producer_id=producer, producer_epoch=0, coordinator_epoch=0, timestamp=NOW)
    return b"".join(Batch(built).placed(offset, 0))


def test_aborted_transactions_and_control_batches_are_left_out(part):
    run = (
        transactional(0, 1, b"aborted")
        + transactional(1, 2, b"committed by 2")
        + build_batch([Record(0, NOW, b"k", b"plain")], base_offset=2)
        + transactional(3, 1, b"aborted too")
        + marker(4, 1, Marker.ABORT)
        + marker(5, 2, Marker.COMMIT)
        + transactional(6, 1, b"committed by 1")
        + marker(7, 1, Marker.COMMIT)
        + transactional(8, 2, b"aborted by 2")
        + marker(9, 2, Marker.ABORT)
    )
    committed = decode_columns(run, aborted=[(2, 8), (1, 0)])
    assert [record.value for record in as_arrow(committed)] == [b"committed by 2", b"plain", b"committed by 1"]
    assert committed.next_offset == 10
    everything = decode_columns(run)
    assert everything.rows == 6


def test_going_on_after_a_full_call_remembers_what_was_aborted(part):
    run = (
        transactional(0, 1, b"aborted")
        + build_batch([Record(0, NOW, b"k", b"plain" * 20)], base_offset=1)
        + marker(2, 1, Marker.ABORT)
        + build_batch([Record(0, NOW, b"k", b"more" * 20)], base_offset=3)
        + transactional(4, 1, b"committed by 1")
    )
    values, position, calls = [], 0, 0
    while position < len(run):
        columns = decode_columns(run, position=position, aborted=[(1, 0)], max_bytes=90)
        values += [record.value for record in as_arrow(columns)]
        assert columns.position > position
        position = columns.position
        calls += 1
    assert values == [b"plain" * 20, b"more" * 20, b"committed by 1"]
    assert calls == 3


def test_a_batch_above_the_limit_comes_alone_rather_than_never(part):
    run = a_run([Record(0, NOW, b"k", bytes(500))], [Record(0, NOW, b"k", bytes(500))])
    first = decode_columns(run, max_bytes=100)
    assert (first.rows, first.next_offset) == (1, 1)


@pytest.mark.parametrize("headers", [(), (("", None),) * 3])
def test_records_without_bytes_count_by_their_uncompressed_size(headers, part):
    nothing = [Record(0, NOW, None, None, headers)] * 1000
    run = a_run(nothing, nothing, nothing, codec=Codec.ZSTD)
    first = decode_columns(run, headers=True, max_bytes=10_000)
    assert (first.rows, first.next_offset) == (1000, 1000)
    rest = decode_columns(run, headers=True, max_bytes=10_000_000, position=first.position)
    assert (rest.rows, rest.next_offset, rest.position) == (2000, 3000, len(run))


def test_a_partial_tail_waits_for_the_next_fetch(part):
    run = a_run([Record(0, NOW, b"k", b"v")], [Record(0, NOW, b"k", b"v")])
    columns = decode_columns(run[:-1])
    assert (columns.rows, columns.next_offset, columns.position) == (1, 1, len(run) // 2)
    assert decode_columns(b"").rows == 0


@pytest.mark.parametrize("codec", list(Codec))
def test_damage_is_refused_with_the_place(codec, part):
    run = bytearray(a_run([Record(0, NOW, b"k", b"v")] * 3, [Record(0, NOW, b"k", b"v" * 50)], codec=codec))
    run[-4] ^= 0x40
    with pytest.raises(CorruptRecords, match=r"CRC.*offset 3"):
        decode_columns(run)
    assert decode_columns(run, end_offset=3).rows == 3


def test_what_a_broker_has_stored_is_read_though_it_takes_more_than_a_producer_may_send(part):
    run = build_batch([Record(0, NOW, b"k", bytes(33 * 1024 * 1024))], codec=Codec.ZSTD)
    assert scan_records(Batch(run)).error is ErrorCode.MESSAGE_TOO_LARGE
    assert decode_columns(run).rows == 1
    assert len(read_records(Batch(run))) == len(read_run(run)) == 1


def test_a_bomb_inside_a_run_is_refused(part):
    run = build_batch([Record(0, NOW, b"k", bytes(10_000_000))], codec=Codec.ZSTD)
    with pytest.raises(CorruptRecords) as refused:
        decode_columns(run, limit_bytes=1_000_000)
    assert refused.value.error is ErrorCode.MESSAGE_TOO_LARGE


@settings(max_examples=80, deadline=None)
@given(RECORDS, st.sampled_from(list(Codec)), st.integers(62, 400))
def test_columns_make_the_batches_that_they_came_from(records, codec, max_bytes):
    columns = decode_columns(a_run(records), headers=True, unit=TimeUnit.MICROS)
    batches = list(
        encode_columns(
            columns.rows,
            key=columns.key,
            value=columns.value,
            timestamp=(None, columns.timestamp),
            unit=TimeUnit.MICROS,
            headers=columns.headers,
            codec=codec,
            max_bytes=max_bytes,
            producer_id=1,
            producer_epoch=0,
            base_sequence=2**31 - 3,
        )
    )
    back: list[Record] = []
    sequence = 2**31 - 3
    for encoded in batches:
        batch = Batch(encoded.batch)
        assert check_batch(batch) is ErrorCode.NONE
        assert scan_records(batch).max_timestamp == batch.max_timestamp == encoded.max_timestamp
        assert batch.base_sequence == encoded.base_sequence == sequence
        assert encoded.rows == batch.records_count
        assert encoded.rows == 1 or codec is not Codec.NONE or batch.size <= max_bytes
        sequence = (sequence + encoded.rows) % 2**31
        back += [record._replace(offset=len(back) + record.offset) for record in read_records(batch)]
    assert back == [record._replace(offset=index) for index, record in enumerate(records)]


def test_a_slice_of_arrow_arrays_is_encoded_by_its_absolute_indexes(part):
    key = pa.array([None, b"a", b"b", None, b"d"], pa.binary()).slice(1, 4)
    value = pa.array([b"0", b"1", b"2", b"3", None], pa.binary()).slice(1, 4)
    times = pa.array([1, 2, None, 4, 5], pa.int64()).slice(1, 4)
    headers = pa.array(
        [[{"key": "x", "value": b"0"}], [], [{"key": "y", "value": None}, {"key": "z", "value": b"2"}], None, []],
        pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    ).slice(1, 4)
    validity, offsets, _, _, name_offsets, name_data, content_validity, content_offsets, content_data = (
        headers.buffers()
    )
    names = BinaryColumn(None, name_offsets, name_data)
    contents = BinaryColumn(content_validity, content_offsets, content_data, 1)
    (encoded,) = encode_columns(
        5,
        start=1,
        key=BinaryColumn(*key.buffers(), 1),
        value=BinaryColumn(*value.buffers(), 1),
        timestamp=tuple(times.buffers()),
        default_timestamp_ms=77,
        headers=HeaderColumn(validity, headers.null_count, offsets, 3, names, contents),
    )
    assert read_records(Batch(encoded.batch)) == [
        Record(0, 2, b"a", b"1", ()),
        Record(1, 77, b"b", b"2", (("y", None), ("z", b"2"))),
        Record(2, 4, None, b"3", ()),
        Record(3, 5, b"d", None, ()),
    ]


def test_offsets_that_lie_are_refused_before_anything_is_read(part):
    lying = BinaryColumn(None, b"\x00\x00\x00\x00\x00\x00\x00\x40", b"abc")
    with pytest.raises(ValueError, match="offsets"):
        list(encode_columns(1, key=lying, value=None))


def test_all_null_columns_need_no_buffers(part):
    (encoded,) = encode_columns(3, key=None, value=None, default_timestamp_ms=NOW)
    assert read_records(Batch(encoded.batch)) == [Record(n, NOW, None, None, ()) for n in range(3)]
