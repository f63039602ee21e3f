"""Compares the answers of `records.batch` to each case of verdicts.py with those of Apache Kafka 4.3.1."""

import pytest
import verdicts

from ottla.kernel.errors import ErrorCode
from ottla.records.batch import Scan, check_batch, produced_batch, scan_records, settled

NOW = verdicts.NOW + 10 * 365 * 86400 * 1000
"""The present time for the cases: their timestamps are far in its past, those of late records far in its future."""


def our_verdict(records: bytes, topic: str) -> Scan:
    batch = produced_batch(records)
    if isinstance(batch, ErrorCode):
        return Scan(batch)
    if error := check_batch(batch):
        return Scan(error)
    found = scan_records(
        batch,
        need_keys=topic == "compacted",
        append_time=topic == "append time",
        earliest_ms=NOW - (10**15 if topic == "bounded time" else 2**63 - 1),
        latest_ms=NOW + 3_600_000,
    )
    if found.error is ErrorCode.NONE:
        stored = settled(batch, found, append_time=topic == "append time", now_ms=NOW)
        assert stored.crc_holds()
        found = found._replace(max_timestamp=stored.max_timestamp)
    return found


def is_renumbering(found: Scan) -> bool:
    """True if the case has wrong offset deltas. Kafka ignores or corrects them; here they are refused."""
    return found.error is ErrorCode.INVALID_RECORD and "offset deltas" in found.message


@pytest.mark.parametrize("case", verdicts.load(), ids=lambda case: f"{case.name} ({case.topic})")
def test_a_producer_gets_kafkas_answer(case, part):
    found = our_verdict(case.records, case.topic)
    if case.code == ErrorCode.UNKNOWN_SERVER_ERROR:
        # Kafka has no specific error for streams that do not decompress and for unknown codecs.
        assert found.error in (ErrorCode.INVALID_RECORD, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    elif case.code == ErrorCode.NONE and is_renumbering(found):
        assert case.name.startswith(("mutated", "offset delta"))
    else:
        assert found.error == case.code
        assert [refused.batch_index for refused in found.record_errors] == case.refused
        if case.code == ErrorCode.NONE:
            assert found.max_timestamp == (NOW if case.topic == "append time" else case.max_timestamp)


def test_the_cases_are_the_ones_that_kafka_was_asked():
    asked = [(case.name, case.topic, case.records) for case in verdicts.load()]
    made = list(verdicts.all_cases())
    by_topic = [case for topic in verdicts.TOPICS for case in made if case[1] == topic]
    assert [case[:2] for case in asked] == [case[:2] for case in by_topic]
    # Compressed bytes may differ between versions of a library: sound batches are compared above.
    plain = [
        (a, b)
        for a, b in zip(asked, by_topic, strict=True)
        if not any(c in a[0] for c in ("GZIP", "SNAPPY", "LZ4", "ZSTD"))
    ]
    assert all(a == b for a, b in plain)
