"""Batches of others are read here, and ours are read by others: aiokafka, kafka-python, kio, Apache Kafka."""

from __future__ import annotations

import gzip
import io
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AioBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBuilder
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder
from kio.records import readers, writers
from kio.records import schema as kio

from ottla.kernel.errors import ErrorCode
from ottla.records.batch import Batch, check_batch, iterate_batches, produced_batch, scan_records
from ottla.records.builder import build_batch
from ottla.records.columns import decode_columns
from ottla.records.compression import Codec
from ottla.records.control import EndOfTransaction, Marker, build_marker, read_marker
from ottla.records.reader import Record, read_records

NOW = 1_700_000_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Header values that are null trip kafka-python, so only some lists hold them.
RECORDS = st.lists(
    st.builds(
        Record,
        st.just(0),
        st.integers(NOW, NOW + 1000),
        st.none() | st.binary(max_size=50),
        st.none() | st.binary(max_size=300),
        st.lists(st.tuples(st.text(max_size=5), st.binary(max_size=9)), max_size=2).map(tuple),
    ),
    min_size=1,
    max_size=8,
)
CODECS = st.sampled_from(list(Codec))


def numbered(records: list[Record], base_offset: int = 0) -> list[Record]:
    return [record._replace(offset=base_offset + index) for index, record in enumerate(records)]


def is_accepted(batch: bytes) -> bool:
    found = produced_batch(batch)
    return (
        isinstance(found, Batch)
        and check_batch(found) is ErrorCode.NONE
        and scan_records(found).error is ErrorCode.NONE
        and decode_columns(batch).rows == found.records_count
    )


@settings(max_examples=60, deadline=None)
@given(RECORDS, CODECS)
def test_aiokafka_reads_ours_and_its_own_are_read(records, codec):
    theirs = AioBatch(build_batch(records, base_offset=7, codec=codec))
    assert theirs.validate_crc()
    read = [Record(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in theirs]
    assert read == numbered(records, 7)
    builder = AioBuilder(2, codec, 0, -1, -1, -1, 1 << 20)
    for index, record in enumerate(records):
        assert builder.append(index, record.timestamp, record.key, record.value, list(record.headers))
    built = bytes(builder.build())
    assert read_records(Batch(built)) == numbered(records)
    assert is_accepted(built)


@settings(max_examples=40, deadline=None)
@given(RECORDS, CODECS.filter(lambda codec: codec is not Codec.SNAPPY))  # it would need python-snappy
def test_kafka_python_reads_ours_and_its_own_are_read(records, codec):
    theirs = KafkaPythonBatch(build_batch(records, base_offset=7, codec=codec))
    assert theirs.validate_crc()
    read = [Record(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in theirs]
    assert read == numbered(records, 7)
    builder = KafkaPythonBuilder(2, codec, False, -1, -1, -1, 1 << 20)
    for index, record in enumerate(records):
        builder.append(index, record.timestamp, record.key, record.value, list(record.headers))
    built = bytes(builder.build())
    assert read_records(Batch(built)) == numbered(records)
    assert is_accepted(built)


@settings(max_examples=40, deadline=None)
@given(RECORDS)
def test_kio_reads_ours_and_its_own_are_read(records):
    # kio keeps whole seconds only.
    records = [record._replace(timestamp=NOW + record.timestamp % 5 * 1000) for record in records]
    theirs, _ = readers.read_batch(build_batch(records, base_offset=7), 0)
    assert [
        Record(
            r.offset,
            (r.timestamp - EPOCH) // timedelta(milliseconds=1),
            r.key,
            r.value,
            tuple((h.key.decode(), h.value) for h in r.headers),
        )
        for r in theirs.records
    ] == numbered(records, 7)
    out = io.BytesIO()
    writers.write_new_batch(
        out,
        kio.NewRecordBatch(
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            attributes=0,
            records=tuple(
                kio.Record(
                    attributes=0,
                    timestamp=EPOCH + timedelta(milliseconds=record.timestamp),
                    offset=index,
                    key=record.key,
                    value=record.value,
                    headers=tuple(kio.RecordHeader(key=n.encode(), value=v) for n, v in record.headers),
                )
                for index, record in enumerate(records)
            ),
        ),
    )
    assert read_records(Batch(out.getvalue())) == numbered(records)


def batches_of_apache_kafka() -> list[bytes]:
    """WriteBatches.java's: one for each codec, then an abort and a commit marker."""
    lines = gzip.decompress((Path(__file__).parent / "kafka_batches.txt.gz").read_bytes()).decode().split()
    return [bytes.fromhex(line) for line in lines]


def records_of_apache_kafka() -> list[Record]:
    return [
        Record(
            100 + i,
            NOW + i * 7,
            None if i % 5 == 0 else b"key-%d" % i,
            None if i % 7 == 0 else b"value-" + b"x" * i,
            () if i % 3 == 0 else ((f"h{i}", f"\u00e9{i}".encode()), ("", None)),
        )
        for i in range(500)
    ]


@pytest.mark.parametrize("codec", list(Codec))
def test_what_apache_kafka_wrote_is_read(codec, part):
    batch = Batch(batches_of_apache_kafka()[codec])
    assert check_batch(batch, from_client=False) is ErrorCode.NONE
    assert batch.compression is codec
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (9, 3, 2147483640)
    assert batch.last_sequence == (2147483640 + 499) % 2**31
    assert batch.is_transactional and not batch.is_control
    assert (batch.leader_epoch, batch.base_offset, batch.next_offset) == (5, 100, 600)
    assert read_records(batch) == records_of_apache_kafka()
    assert scan_records(batch).max_timestamp == batch.max_timestamp == NOW + 499 * 7


def test_ours_are_apache_kafkas_to_the_byte():
    theirs = batches_of_apache_kafka()
    ours = build_batch(
        records_of_apache_kafka(),
        base_offset=100,
        producer_id=9,
        producer_epoch=3,
        base_sequence=2147483640,
        is_transactional=True,
        leader_epoch=5,
    )
    assert ours == theirs[Codec.NONE]
    for marker, batch in zip((Marker.ABORT, Marker.COMMIT), theirs[5:], strict=True):
        assert read_marker(Batch(batch)) == EndOfTransaction(marker, 6)
        built = build_marker(marker, producer_id=11, producer_epoch=2, coordinator_epoch=6, timestamp=NOW)
        assert list(Batch(built).placed(7, 4)) == [batch[:16], batch[16:]]


def test_a_run_of_them_is_walked_to_its_partial_tail():
    run = b"".join(batches_of_apache_kafka())
    assert len(list(iterate_batches(run))) == 7
    assert len(list(iterate_batches(run[:-1]))) == 6
    assert [batch.is_control for batch in iterate_batches(run)] == [False] * 5 + [True] * 2
