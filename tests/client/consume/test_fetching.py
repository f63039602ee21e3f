"""Records from fetched bytes: from the position on, without markers and aborted records."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.client.stories import topic_led_by

from ottla.client.consume.fetching import Fetcher
from ottla.client.consume.settings import FetchSettings
from ottla.client.core.effects import Start
from ottla.client.core.plan import ClusterPlan
from ottla.client.core.transfer import whole_batches
from ottla.client.errors import ClientError, ProtocolViolation, RequestTimedOut, UnsupportedVersion
from ottla.client.model import AbortedRange, ClientSettings, ConsumedRecord, Fetched, IsolationLevel
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchResponse,
    PartitionData,
)
from ottla.records.batch import patch
from ottla.records.builder import build_batch
from ottla.records.control import Marker, build_marker
from ottla.records.reader import Record

PLACE = TopicPartition("t", 0)


def a_log(*parts: bytes) -> bytes:
    """Batches at the offsets at which a log would keep them."""
    log, offset = bytearray(), 0
    for part in parts:
        kept = bytearray(part)
        patch(kept, offset, 3)
        offset = whole_batches(memoryview(kept))[1]
        log += kept
    return bytes(log)


def values(*texts: str, producer: int = -1) -> bytes:
    records = [Record(0, 5, None, text.encode()) for text in texts]
    transactional = producer >= 0
    return build_batch(
        records,
        producer_id=producer,
        producer_epoch=0 if transactional else -1,
        base_sequence=0 if transactional else -1,
        is_transactional=transactional,
    )


def marker(kind: Marker, producer: int) -> bytes:
    return build_marker(kind, producer_id=producer, producer_epoch=0, coordinator_epoch=0, timestamp=5)


def read(log: bytes, *aborted: AbortedRange, start: int = 0, committed: bool = True) -> list[str]:
    level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    fetcher = Fetcher(ClusterPlan("b:1", ClientSettings(), lambda: 0.0), FetchSettings(isolation_level=level))
    fetcher.assign({PLACE})
    size, end = whole_batches(memoryview(log))
    reading = fetcher.readings[PLACE]
    reading.seek(start)
    reading.waiting.append(Fetched("t", 0, start, end, memoryview(log)[:size], end, end, 0, list(aborted)))
    fetcher.promote()
    records = fetcher.take(100)
    assert reading.position == end, "also past what was not handed out"
    return [(record.value or b"").decode() for record in records]


def test_what_was_aborted_is_left_out_and_what_was_committed_is_not() -> None:
    log = a_log(
        values("lost", producer=1),
        values("kept", producer=2),
        values("plain"),
        marker(Marker.ABORT, 1),
        values("again", producer=1),
        marker(Marker.COMMIT, 2),
        marker(Marker.COMMIT, 1),
    )
    assert read(log, AbortedRange(1, 0)) == ["kept", "plain", "again"]
    assert read(log, AbortedRange(1, 0), committed=False) == ["lost", "kept", "plain", "again"]


def test_an_abort_counts_from_its_first_offset_only() -> None:
    log = a_log(
        values("first", producer=1),
        marker(Marker.COMMIT, 1),
        values("second", producer=1),
        marker(Marker.ABORT, 1),
    )
    assert read(log, AbortedRange(1, 2)) == ["first"]


def test_a_position_inside_a_batch_skips_what_lies_before_it() -> None:
    assert read(a_log(values("a", "b", "c"), values("d")), start=2) == ["c", "d"]


def test_a_cut_off_batch_at_the_end_waits_for_the_next_fetch() -> None:
    log = a_log(values("a"), values("b"))
    assert whole_batches(memoryview(log)[:-1]) == (len(a_log(values("a"))), 1)
    assert read(log[:-1]) == ["a"]


def test_a_batch_whose_crc_does_not_hold_is_an_error() -> None:
    log = bytearray(a_log(values("abc")))
    log[-2] ^= 1
    with pytest.raises(ApiError, match="t-0 at offset 0"):
        read(bytes(log))


def test_pieces_are_handed_out_in_portions_partition_by_partition() -> None:
    fetcher = Fetcher(ClusterPlan("b:1", ClientSettings(), lambda: 0.0), FetchSettings())
    other = TopicPartition("t", 1)
    fetcher.assign({PLACE, other})
    for place, texts in ((PLACE, "abc"), (other, "xyz")):
        log = a_log(values(*texts))
        fetcher.readings[place].seek(0)
        fetcher.readings[place].waiting.append(Fetched("t", place.partition, 0, 3, memoryview(log), 3, 3, 0, []))
    fetcher.promote()
    portions = [[(record.value or b"").decode() for record in fetcher.take(2)] for _ in range(4)]
    assert portions == [["a", "b"], ["x", "y"], ["c", "z"], []]


def test_a_partition_with_a_leader_is_read_while_another_of_its_topic_has_none() -> None:
    plan = ClusterPlan("b:1", ClientSettings(), lambda: 0.0)
    plan.metadata.take(topic_led_by(-1, 1), 0.0, everything=False)
    fetcher = Fetcher(plan, FetchSettings())
    fetcher.assign({PLACE, TopicPartition("t", 1)})
    for reading in fetcher.readings.values():
        reading.seek(0)
    start = next(iter(fetcher.start().__await__()))
    assert isinstance(start, Start)
    (topic,) = start.ask.build(12).topics
    assert [each.partition for each in topic.partitions] == [1]
    assert plan.metadata.missing(["t"]) == ["t"], "so that poll asks for its leader again"
    assert plan.metadata.is_led("t", 1)


def led_by_one() -> ClusterPlan:
    """A plan that knows topic `t` with one partition, led by broker 1."""
    plan = ClusterPlan("b:1", ClientSettings(), lambda: 0.0)
    plan.metadata.take(topic_led_by(1), 0.0, everything=False)
    return plan


def fetch_and_answer(fetcher: Fetcher, error: ErrorCode, session_id: int = 0) -> None:
    """One fetch of PLACE, which the leader refuses or answers without records."""
    handle = object()
    start = fetcher.start().__await__()
    next(start)
    with pytest.raises(StopIteration):
        start.send(handle)
    receive = fetcher.receive(handle).__await__()
    next(receive)
    data = [PartitionData(partition_index=0, error_code=error)]
    with pytest.raises(StopIteration):
        answered = [FetchableTopicResponse(topic="t", partitions=data)]
        receive.send(FetchResponse(session_id=session_id, responses=answered))


def test_records_that_were_received_are_handed_out_before_an_offset_out_of_range_behind_them_counts() -> None:
    fetcher = Fetcher(led_by_one(), FetchSettings())
    fetcher.assign({PLACE})
    fetcher.readings[PLACE].seek(0)
    received(fetcher, PLACE, a_log(values("a"), values("b")))
    assert [record.offset for record in fetcher.take(1)] == [0]
    fetch_and_answer(fetcher, ErrorCode.OFFSET_OUT_OF_RANGE)
    assert [record.offset for record in fetcher.take(100)] == [1]
    fetch_and_answer(fetcher, ErrorCode.OFFSET_OUT_OF_RANGE)
    assert fetcher.readings[PLACE].position is None


OTHER = TopicPartition("t", 1)


def received(fetcher: Fetcher, partition: TopicPartition, log: bytes | bytearray) -> None:
    """An answer with all that the partition's log holds from the position on."""
    reading = fetcher.readings[partition]
    size, end = whole_batches(memoryview(log))
    start = reading.fetch_offset
    reading.waiting.append(Fetched(*partition, start, end, memoryview(log)[:size], end, end, 0, []))
    reading.fetch_offset = end
    fetcher.promote()


def taken(fetcher: Fetcher) -> list[tuple[int, int]]:
    return [(record.partition, record.offset) for record in fetcher.take(100)]


def test_a_corrupt_batch_is_an_error_again_and_again_and_nothing_around_it_is_skipped() -> None:
    log = bytearray(a_log(values("a"), values("b"), values("c")))
    log[2 * len(log) // 3 - 1] ^= 1  # in the second of three equal batches
    fetcher = Fetcher(ClusterPlan("b:1", ClientSettings(), lambda: 0.0), FetchSettings())
    fetcher.assign({PLACE, OTHER})
    for each in (PLACE, OTHER):
        fetcher.readings[each].seek(0)
    received(fetcher, OTHER, a_log(values("x")))
    received(fetcher, PLACE, log)
    assert taken(fetcher) == [(0, 0)], "what comes before the error is handed out before it"
    for _ in range(2):
        received(fetcher, PLACE, log)
        with pytest.raises(ApiError, match="t-0 at offset 1"):
            taken(fetcher)
        assert fetcher.readings[PLACE].position == 1
    fetcher.readings[PLACE].seek(2)
    received(fetcher, PLACE, log[2 * len(log) // 3 :])
    received(fetcher, OTHER, a_log(values("x")))
    assert taken(fetcher) == [(0, 2), (1, 0)]


def test_records_of_an_interrupted_take_are_read_again() -> None:
    fetcher = Fetcher(ClusterPlan("b:1", ClientSettings(), lambda: 0.0), FetchSettings())
    fetcher.assign({PLACE})
    fetcher.readings[PLACE].seek(0)
    log = a_log(values("a"), values("b"))
    received(fetcher, PLACE, log)
    opened = fetcher.readings[PLACE].current
    assert opened is not None

    def interrupted() -> Iterator[ConsumedRecord]:
        yield next(opened)
        raise KeyboardInterrupt

    fetcher.readings[PLACE].current = interrupted()
    with pytest.raises(KeyboardInterrupt):
        fetcher.take(100)
    assert fetcher.readings[PLACE].position == 0
    received(fetcher, PLACE, log)
    assert taken(fetcher) == [(0, 0), (0, 1)]


def test_one_by_one_the_position_moves_with_each_record_and_partitions_may_change_in_between() -> None:
    fetcher = Fetcher(ClusterPlan("b:1", ClientSettings(), lambda: 0.0), FetchSettings())
    third = TopicPartition("t", 2)
    fetcher.assign({PLACE, OTHER, third})
    for each in (PLACE, OTHER, third):
        fetcher.readings[each].seek(0)
        received(fetcher, each, a_log(values("a"), values("b")))
    records = fetcher.one_by_one(100)
    assert next(records).partition == 0 and fetcher.readings[PLACE].position == 1
    fetcher.pause([PLACE])
    assert next(records).partition == 1
    fetcher.assign({PLACE, third})
    assert [(record.partition, record.offset) for record in records] == [(2, 0), (2, 1)]
    fetcher.resume([PLACE])
    assert [record.offset for record in fetcher.one_by_one(0)] == []
    assert [(record.partition, record.offset) for record in fetcher.one_by_one(100)] == [(0, 1)]


def test_one_by_one_a_corrupt_batch_is_an_error_until_the_position_is_another() -> None:
    log = bytearray(a_log(values("a"), values("b")))
    log[-2] ^= 1
    fetcher = Fetcher(ClusterPlan("b:1", ClientSettings(), lambda: 0.0), FetchSettings())
    fetcher.assign({PLACE})
    fetcher.readings[PLACE].seek(0)
    received(fetcher, PLACE, log)
    records = fetcher.one_by_one(100)
    assert next(records).offset == 0
    with pytest.raises(ApiError, match="t-0 at offset 1"):
        next(records)
    received(fetcher, PLACE, log)
    with pytest.raises(ApiError, match="t-0 at offset 1"):
        next(fetcher.one_by_one(100))


def test_a_fetch_that_was_interrupted_before_it_was_sent_is_said_anew_in_full() -> None:
    """The broker once read on from the offset that it knew, and the consumer waited without end for another."""
    fetcher = Fetcher(led_by_one(), FetchSettings())
    fetcher.assign({PLACE})
    fetcher.readings[PLACE].seek(0)
    fetch_and_answer(fetcher, ErrorCode.NONE, session_id=7)
    fetcher.readings[PLACE].seek(5)
    start = fetcher.start().__await__()
    next(start)
    with pytest.raises(KeyboardInterrupt):
        start.throw(KeyboardInterrupt)
    (again,) = (each.ask.build(12) for each in fetcher.start().__await__())
    assert [part.fetch_offset for part in again.topics[0].partitions] == [5]


@pytest.mark.parametrize("fault", [UnsupportedVersion("Fetch"), ProtocolViolation("no answer to Fetch")])
def test_an_error_that_no_other_fetch_would_cure_is_raised(fault: ClientError) -> None:
    fetcher = Fetcher(led_by_one(), FetchSettings())
    fetcher.assign({PLACE})
    fetcher.readings[PLACE].seek(0)
    start = fetcher.start().__await__()
    next(start)
    with pytest.raises(type(fault)):
        start.throw(fault)


def answered(fetcher: Fetcher, data: PartitionData) -> FetchPartition:
    """One fetch of PLACE and its answer; what the request said of the partition."""
    handle = object()
    start = fetcher.start().__await__()
    request = next(start).ask.build(12)
    with pytest.raises(StopIteration):
        start.send(handle)
    receive = fetcher.receive(handle).__await__()
    next(receive)
    with pytest.raises(StopIteration):
        receive.send(FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[data])]))
    asked: FetchPartition = request.topics[0].partitions[0]
    return asked


def some_records() -> PartitionData:
    return PartitionData(partition_index=0, records=memoryview(a_log(values("a"), values("b", "c"))))


def cut_back(epoch: int, end: int) -> PartitionData:
    return PartitionData(partition_index=0, diverging_epoch=EpochEndOffset(epoch=epoch, end_offset=end))


def test_reading_goes_on_where_the_log_was_cut_back_once_what_was_received_is_handed_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """After an unclean election a consumer once skipped what the new leader wrote below the consumer's offset."""
    fetcher = Fetcher(led_by_one(), FetchSettings())
    fetcher.assign({PLACE})
    fetcher.readings[PLACE].seek(0)
    assert answered(fetcher, some_records()).last_fetched_epoch == -1
    fetcher.promote()
    assert answered(fetcher, cut_back(2, 1)).last_fetched_epoch == 3
    assert [record.offset for record in fetcher.take(100)] == [0, 1, 2]
    reading = fetcher.readings[PLACE]
    assert (reading.position, reading.epoch) == (3, 3)
    answered(fetcher, cut_back(2, 1))
    assert (reading.position, reading.epoch) == (1, 2)
    assert "t-0 was cut back: it is read on from offset 1, not 3" in caplog.text
    assert answered(fetcher, some_records()).last_fetched_epoch == 2


def test_an_epoch_of_which_the_leader_keeps_no_records_moves_no_offset(caplog: pytest.LogCaptureFixture) -> None:
    fetcher = Fetcher(led_by_one(), FetchSettings())
    fetcher.assign({PLACE})
    fetcher.readings[PLACE].seek(5, 3)
    answered(fetcher, cut_back(2, 9))
    assert (fetcher.readings[PLACE].position, fetcher.readings[PLACE].epoch) == (5, 2)
    assert not caplog.text


def test_a_log_that_was_cut_back_is_an_error_where_no_offset_is_to_be_chosen() -> None:
    fetcher = Fetcher(led_by_one(), FetchSettings(), follow_truncation=False)
    fetcher.assign({PLACE})
    fetcher.readings[PLACE].seek(5, 3)
    for _ in range(2):
        with pytest.raises(ApiError, match="cut back to offset 1") as raised:
            answered(fetcher, cut_back(2, 1))
        assert raised.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
        assert fetcher.readings[PLACE].position == 5


def test_partitions_of_other_brokers_are_fetched_while_metadata_is_asked_for_because_of_one() -> None:
    plan = ClusterPlan("b:1", ClientSettings(), lambda: 0.0)
    plan.metadata.take(topic_led_by(1, 2), 0.0, everything=False)
    fetcher = Fetcher(plan, FetchSettings())
    fetcher.assign({PLACE, OTHER})
    for reading in fetcher.readings.values():
        reading.seek(0)
    first, second = object(), object()
    start = fetcher.start().__await__()
    assert [next(start).ask.destination.port, start.send(first).ask.destination.port] == [1, 2]
    with pytest.raises(StopIteration):
        start.send(second)
    for handle, answer in ((second, RequestTimedOut("hangs")), (first, FetchResponse())):
        receive = fetcher.receive(handle).__await__()
        next(receive)
        with pytest.raises(StopIteration):
            receive.throw(answer) if isinstance(answer, Exception) else receive.send(answer)
    assert not plan.metadata.is_led("t", 0), "metadata is asked for"
    assert [effect.ask.destination.port for effect in fetcher.start().__await__()] == [1]
