"""Batches per partition: when they leave, in which order, and how a retry writes nothing twice."""

from __future__ import annotations

import pytest

from ottla.client.errors import ConnectionLost, RequestTimedOut, TransactionAborted
from ottla.client.model import Produced, ProducerIdentity
from ottla.client.produce.accumulator import Accumulator, BatchPlace, ProducerSettings
from ottla.kernel.ids import TopicPartition
from ottla.records.batch import Batch
from ottla.records.builder import BatchBuilder
from ottla.records.reader import read_records

LOST = ConnectionLost("the connection was lost")
ONE, TWO = TopicPartition("t", 0), TopicPartition("t", 1)


def an_accumulator(**settings: object) -> Accumulator:
    accumulator = Accumulator(ProducerSettings(**settings), pick=lambda count: 0)  # type: ignore[arg-type]
    accumulator.identify(ONE, ProducerIdentity(7, 0))
    accumulator.identify(TWO, ProducerIdentity(7, 0))
    return accumulator


def put(accumulator: Accumulator, value: bytes, partition: TopicPartition = ONE, now_ms: float = 0) -> BatchPlace:
    return accumulator.append(partition, 1000, None, value, [], now_ms=now_ms)


def test_a_batch_leaves_when_it_has_lingered() -> None:
    accumulator = an_accumulator(linger_ms=5)
    put(accumulator, b"a")
    assert accumulator.ready(4.9) == []
    assert accumulator.next_ready_ms() == 5
    (batch,) = accumulator.ready(5)
    assert batch.partition == ONE


def test_a_full_batch_leaves_at_once_and_a_flush_waits_for_nothing() -> None:
    accumulator = an_accumulator(linger_ms=1000, batch_size=200)
    put(accumulator, b"x" * 300)
    assert len(accumulator.ready(0)) == 1
    put(accumulator, b"a", TWO)
    assert accumulator.ready(0) == []
    assert len(accumulator.ready(0, flush=True)) == 1


def test_one_batch_of_a_partition_is_under_way_at_a_time() -> None:
    accumulator = an_accumulator(linger_ms=0, batch_size=100)
    places = [put(accumulator, bytes([number]) * 90) for number in range(3)]
    (first,) = accumulator.ready(0)
    assert accumulator.ready(10) == []
    accumulator.finish(first, Produced(40))
    assert places[0].delivered().offset == 40
    (second,) = accumulator.ready(10)
    assert second is places[1].batch


def test_sequences_follow_one_another_and_a_retry_sends_the_same_bytes() -> None:
    accumulator = an_accumulator(linger_ms=0)
    for value in (b"a", b"b", b"c"):
        put(accumulator, value)
    (batch,) = accumulator.ready(0)
    frame = accumulator.frame(batch)
    accumulator.again(batch, 50, LOST)
    put(accumulator, b"d")
    assert accumulator.ready(49) == []
    assert accumulator.ready(50) == [batch]
    assert accumulator.frame(batch) == frame
    assert [record.value for record in read_records(Batch(frame))] == [b"a", b"b", b"c"]
    accumulator.finish(batch, Produced(0))
    (following,) = accumulator.ready(50)
    header = Batch(accumulator.frame(following))
    assert (Batch(frame).base_sequence, header.base_sequence, header.producer_id) == (0, 3, 7)


def test_after_a_failure_the_partition_goes_on_under_another_producer_id() -> None:
    accumulator = an_accumulator(linger_ms=0, batch_size=100)
    lost, later = put(accumulator, b"x" * 90), put(accumulator, b"y" * 90)
    other = put(accumulator, b"z" * 90, TWO)
    for batch in accumulator.ready(0):
        accumulator.frame(batch)
    accumulator.finish(lost.batch, RequestTimedOut("too late"))
    with pytest.raises(RequestTimedOut):
        lost.delivered()
    assert accumulator.needs_identity(later.batch)
    assert not accumulator.needs_identity(other.batch)
    accumulator.identify(ONE, ProducerIdentity(8, 0))
    (batch,) = accumulator.ready(0)
    header = Batch(accumulator.frame(batch))
    assert (header.producer_id, header.base_sequence) == (8, 0)


def test_a_producer_id_that_the_broker_forgot_is_replaced_and_the_batch_goes_again() -> None:
    accumulator = an_accumulator(linger_ms=0)
    place = put(accumulator, b"a")
    (batch,) = accumulator.ready(0)
    accumulator.frame(batch)
    accumulator.again(batch, 0, LOST, fresh_identity=True)
    assert accumulator.needs_identity(batch)
    accumulator.identify(ONE, ProducerIdentity(9, 0))
    assert accumulator.ready(0) == [batch]
    assert Batch(accumulator.frame(batch)).producer_id == 9
    accumulator.finish(batch, Produced(3, timestamp=55))
    assert place.delivered() == ("t", 0, 3, 55)


def test_records_without_key_stay_with_one_partition_until_its_batch_is_full() -> None:
    choices = iter([2, 0])
    accumulator = Accumulator(ProducerSettings(batch_size=400), pick=lambda count: next(choices))
    chosen = []
    for _ in range(4):
        partition = accumulator.choose("t", None, [0, 1, 2], 3)
        chosen.append(partition)
        accumulator.append(TopicPartition("t", partition), 0, None, b"x" * 100, [], now_ms=0)
    assert chosen == [2, 2, 2, 0], "the third did not fit any more: the next record goes elsewhere"


def test_memory_is_counted_and_given_back() -> None:
    accumulator = an_accumulator(linger_ms=0, buffer_memory=400)
    assert accumulator.has_room(10_000), "one record may always be taken"
    place = put(accumulator, b"x" * 300)
    assert not accumulator.has_room(200)
    accumulator.ready(0)
    accumulator.finish(place.batch, Produced(0))
    assert accumulator.waiting_bytes == 0
    assert accumulator.has_room(200)


def test_what_is_abandoned_fails_and_leaves_nothing() -> None:
    accumulator = an_accumulator()
    place = put(accumulator, b"a")
    assert accumulator.abandon(RequestTimedOut("closed")) == [place.batch]
    assert accumulator.unfinished == []
    with pytest.raises(RequestTimedOut):
        place.delivered()


def test_without_idempotence_batches_carry_no_producer() -> None:
    accumulator = Accumulator(ProducerSettings(acks=1, linger_ms=0))
    put(accumulator, b"a")
    (batch,) = accumulator.ready(0)
    assert not accumulator.needs_identity(batch)
    assert Batch(accumulator.frame(batch)).producer_id == -1


def test_an_aborted_transaction_drops_what_waits_and_leaves_what_is_under_way() -> None:
    accumulator = an_accumulator(linger_ms=0, batch_size=100)
    sent, waiting = put(accumulator, b"x" * 90), put(accumulator, b"y" * 90)
    other = put(accumulator, b"z", TWO)
    (under_way,) = [batch for batch in accumulator.ready(0) if batch.partition == ONE]
    accumulator.again(other.batch, 10, LOST)
    fault = TransactionAborted("aborted")
    assert accumulator.drop_waiting(fault) == [waiting.batch, other.batch]
    assert waiting.batch.outcome is fault and sent.batch.outcome is None
    accumulator.finish(under_way, Produced(0))
    assert accumulator.unfinished == [] and accumulator.waiting_bytes == 0


def test_a_batch_that_never_left_does_not_disturb_the_sequences_of_its_partition() -> None:
    accumulator = an_accumulator(linger_ms=0)
    put(accumulator, b"a")
    (batch,) = accumulator.ready(0)
    accumulator.frame(batch)
    accumulator.finish(batch, Produced(0))
    put(accumulator, b"dropped")
    accumulator.drop_waiting(TransactionAborted("aborted"))
    put(accumulator, b"b")
    (following,) = accumulator.ready(0)
    assert not accumulator.needs_identity(following)
    assert Batch(accumulator.frame(following)).base_sequence == 1


def test_another_epoch_starts_every_partition_at_sequence_0() -> None:
    accumulator = an_accumulator(linger_ms=0, transactional_id="id")
    put(accumulator, b"a")
    (batch,) = accumulator.ready(0)
    assert Batch(accumulator.frame(batch)).is_transactional
    accumulator.finish(batch, Produced(0))
    accumulator.renew(ProducerIdentity(7, 0))
    put(accumulator, b"b")
    (same,) = accumulator.ready(0)
    assert not accumulator.needs_identity(same)
    accumulator.frame(same)
    accumulator.finish(same, Produced(1))
    accumulator.renew(ProducerIdentity(7, 1))
    put(accumulator, b"c")
    (later,) = accumulator.ready(0)
    assert accumulator.needs_identity(later)


@pytest.mark.parametrize("settings", [{"acks": 1}, {"enable_idempotence": False}])
def test_transactions_need_idempotence(settings: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="transactional_id needs"):
        ProducerSettings(transactional_id="id", **settings)  # type: ignore[arg-type]


def test_an_impossible_timestamp_is_refused_and_leaves_nothing_behind() -> None:
    accumulator = an_accumulator()
    for timestamp in (-1, 1 << 63):
        with pytest.raises(ValueError, match="milliseconds since 1970"):
            accumulator.append(ONE, timestamp, None, b"x", [], now_ms=0)
    assert accumulator.unfinished == []


def test_a_first_record_that_a_signal_has_interrupted_leaves_no_batch_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> bool:
        raise KeyboardInterrupt

    accumulator = an_accumulator(linger_ms=0)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(BatchBuilder, "add", interrupted)
        put(accumulator, b"a")
    assert accumulator.ready(0, flush=True) == []
    put(accumulator, b"b")
    (batch,) = accumulator.ready(0)
    assert batch.builder.records_count == 1
