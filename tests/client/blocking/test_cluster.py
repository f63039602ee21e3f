"""The blocking face against real brokers: ours and Apache Kafka."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from ottla.client.admin.admin import ConfigOperation, NewTopic, Resource, ResourceType
from ottla.client.blocking.admin import Admin
from ottla.client.blocking.cluster import Cluster, Connection
from ottla.client.blocking.consumer import Consumer
from ottla.client.blocking.producer import Producer
from ottla.client.consume.assignors import ASSIGNORS, Assignor
from ottla.client.consume.settings import ConsumerSettings
from ottla.client.errors import ConnectionLost, ProtocolViolation, RequestTimedOut
from ottla.client.model import EARLIEST, LATEST, MAX_TIMESTAMP, ClientSettings, CommittedOffset
from ottla.client.produce.settings import ProducerSettings
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.messages.list_groups import ListGroupsRequest
from ottla.records.builder import build_batch
from ottla.records.compression import Codec
from ottla.records.reader import Record, read_run


@pytest.fixture
def cluster(bootstrap: str) -> Iterator[Cluster]:
    with Cluster(bootstrap) as made:
        yield made


def a_topic(bootstrap: str, name: str, partitions: int = 1, **configs: str) -> None:
    with Admin(bootstrap) as admin:
        admin.create_topic(name, partitions, 1, {key.replace("_", "."): value for key, value in configs.items()})


def until(true: Callable[[], bool], seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.01)


@pytest.mark.parametrize("codec", list(Codec))
def test_what_is_produced_is_consumed_with_every_codec(bootstrap: str, name: str, codec: Codec) -> None:
    a_topic(bootstrap, name, 2)
    sent = [(f"k{number}".encode(), b"v" * (number % 50), [("h", b"x"), ("n", None)]) for number in range(300)]
    with Producer(bootstrap, producer=ProducerSettings(compression=codec)) as producer:
        deliveries = [producer.produce(name, value, key, headers=headers) for key, value, headers in sent]
        producer.flush(60)
        places = [delivery.result() for delivery in deliveries]
    with Consumer(bootstrap, consumer=ConsumerSettings(auto_offset_reset="earliest")) as consumer:
        consumer.assign(consumer.cluster.partitions(name))
        got = {}
        while len(got) < len(sent):
            got.update({(each.partition, each.offset): each for each in consumer.poll(5_000)})
    for place, (key, value, headers) in zip(places, sent, strict=True):
        record = got[place.partition, place.offset]
        assert (record.key, record.value, list(record.headers)) == (key, value, headers)


def test_cluster_primitives_serve_a_batch_there_and_back(cluster: Cluster, bootstrap: str, name: str) -> None:
    a_topic(bootstrap, name)
    place = TopicPartition(name, 0)
    identity = cluster.init_producer_id()
    for number in range(3):
        records = [Record(0, 1000 * number + at, b"k", f"{number}-{at}".encode()) for at in range(10)]
        batch = build_batch(records, producer_id=identity.producer_id, producer_epoch=0, base_sequence=10 * number)
        assert cluster.produce(name, 0, batch).base_offset == 10 * number
        assert cluster.produce(name, 0, batch).base_offset == 10 * number, "a retry is answered, not written"
    assert cluster.list_offsets([place], LATEST)[place].offset == 30
    assert cluster.list_offsets([place], EARLIEST)[place].offset == 0
    assert cluster.list_offsets([place], 1005)[place].offset == 15
    assert cluster.list_offsets([place], MAX_TIMESTAMP)[place] == (29, 2009, 0)
    assert cluster.list_offsets([place], 10**12)[place].offset == -1
    piece = cluster.fetch(name, 0, 12, max_bytes=1)
    assert [record.offset for record in read_run(piece.records)] == list(range(10, 20)), "a batch is never cut"
    assert (piece.next_offset, piece.high_watermark, piece.last_stable_offset) == (20, 30, 30)
    assert cluster.topic_id(name) != bytes(16)
    assert cluster.leader(name, 0).id in cluster.brokers()


def test_a_range_comes_in_whole_batches_and_ends(cluster: Cluster, bootstrap: str, name: str) -> None:
    a_topic(bootstrap, name)
    for number in range(40):
        cluster.produce(name, 0, build_batch([Record(0, 0, None, bytes([number]) * 900)] * 5))
    for ahead in (True, False):
        pieces = list(cluster.fetch_range(name, 0, 7, 173, max_bytes=20_000, ahead=ahead))
        offsets = [record.offset for piece in pieces for record in read_run(piece.records)]
        assert offsets == list(range(5, offsets[-1] + 1))
        assert offsets[-1] >= 172
        assert len(pieces) > 3
        assert pieces[-1].offset < 173


def test_a_range_that_is_left_early_keeps_no_answer(cluster: Cluster, bootstrap: str, name: str) -> None:
    """The answer that was asked for ahead once stayed with its connection for good, one for each such range."""
    a_topic(bootstrap, name)
    for number in range(40):
        cluster.produce(name, 0, build_batch([Record(0, 0, None, bytes([number]) * 900)] * 5))
    for _ in range(3):
        pieces = cluster.fetch_range(name, 0, 0, 200, max_bytes=20_000)
        assert next(pieces).offset == 0
        pieces.close()
    assert list(cluster.fetch_range(name, 0, 0, 200, max_bytes=20_000))
    assert not [each for each in cluster.driver._connections.values() if each._answers or each._link.waiting]


def test_a_range_that_is_gone_or_never_comes_is_an_error(bootstrap: str, name: str) -> None:
    a_topic(bootstrap, name)
    with Cluster(bootstrap) as cluster, Admin(cluster=cluster) as admin:
        cluster.produce(name, 0, build_batch([Record(0, 0, None, b"x")] * 10))
        with pytest.raises(RequestTimedOut, match="no records from offset 10"):
            list(cluster.fetch_range(name, 0, 0, 20, timeout_ms=600))
        assert admin.delete_records({TopicPartition(name, 0): 4}) == {TopicPartition(name, 0): 4}
        with pytest.raises(ApiError, match="kept: 4 to 10"):
            list(cluster.fetch_range(name, 0, 0, 10))


def test_offsets_are_committed_without_a_membership(cluster: Cluster, bootstrap: str, name: str) -> None:
    a_topic(bootstrap, name, 2)
    place = TopicPartition(name, 1)
    cluster.commit_offsets(name, {place: CommittedOffset(7, "note")})
    assert cluster.committed_offsets(name) == {place: CommittedOffset(7, "note")}
    assert cluster.committed_offsets(name, [TopicPartition(name, 0)]) == {}
    assert cluster.committed_offsets(name, [place], require_stable=True) == {place: CommittedOffset(7, "note")}


def test_of_two_connections_that_were_opened_at_once_one_is_kept(cluster: Cluster) -> None:
    where = next(iter(cluster.brokers().values())).destination()
    kept, late = cluster.driver.connection(where), cluster.driver.open(where)
    assert cluster.driver.adopt(where, late) is kept
    assert late.fileno() < 0
    assert cluster.driver.connection(where) is kept


def test_a_forked_process_opens_connections_of_its_own(cluster: Cluster, bootstrap: str, name: str) -> None:
    a_topic(bootstrap, name)
    place = TopicPartition(name, 0)
    cluster.list_offsets([place], LATEST)
    child = os.fork()
    if not child:
        signal.alarm(20)
        status = 1
        try:
            status = 0 if cluster.list_offsets([place], LATEST)[place].offset == 0 else 2
        finally:
            os._exit(status)
    for _ in range(20):
        assert cluster.list_offsets([place], LATEST)[place].offset == 0
    assert os.waitpid(child, 0)[1] == 0


def test_a_connection_pipelines_and_takes_answers_in_any_order(bootstrap: str) -> None:
    host, port = bootstrap.rsplit(":", 1)
    connection = Connection(host, int(port))
    first, second = connection.send(ListGroupsRequest()), connection.send(ListGroupsRequest(), 0)
    assert connection.wait(second).error_code == 0
    assert connection.wait(first).error_code == 0
    connection.close()
    with pytest.raises(ConnectionLost):
        connection.request(ListGroupsRequest())


@pytest.mark.parametrize("assignor", sorted(ASSIGNORS.values(), key=lambda each: each.name), ids=lambda each: each.name)
def test_a_group_shares_partitions_and_goes_on_where_it_was(bootstrap: str, name: str, assignor: Assignor) -> None:
    a_topic(bootstrap, name, 4)
    with Producer(bootstrap) as producer:
        for number in range(400):
            producer.produce(name, f"{number}", partition=number % 4)
    settings = ConsumerSettings(
        group_id=name,
        assignors=(assignor,),
        auto_offset_reset="earliest",
        heartbeat_interval_ms=100,
        session_timeout_ms=6_000,
        max_poll_records=10,
    )
    seen: list[bytes] = []
    with Consumer(bootstrap, consumer=settings) as one:
        one.subscribe([name])
        while len(seen) < 100:
            seen += [record.value or b"" for record in one.poll(1_000)]
        assert len(one.assignment) == 4
        one.commit()
        ended = threading.Event()
        with Consumer(bootstrap, consumer=settings) as two:
            two.subscribe([name])

            def other() -> None:
                while not ended.is_set():
                    seen.extend(record.value or b"" for record in two.poll(100))

            thread = threading.Thread(target=other)
            thread.start()

            def shared() -> bool:
                seen.extend(record.value or b"" for record in one.poll(50))
                both = one.assignment, two.assignment
                return [len(each) for each in both] == [2, 2] and not both[0] & both[1] and len(seen) >= 400

            until(shared)
            ended.set()
            thread.join(60)
    assert sorted(set(seen), key=int) == [str(number).encode() for number in range(400)]
    assert len(seen) == 400, "committed before partitions changed hands: nothing comes twice"
    with Cluster(bootstrap) as cluster:
        assert {each: at.offset for each, at in cluster.committed_offsets(name).items()} == {
            TopicPartition(name, index): 100 for index in range(4)
        }


def test_a_pattern_finds_topics_and_leaves_others(bootstrap: str, name: str) -> None:
    for suffix in ("-a", "-b", "-no"):
        a_topic(bootstrap, name + suffix)
        with Producer(bootstrap) as producer:
            producer.produce(name + suffix, suffix)
    settings = ConsumerSettings(group_id=name, auto_offset_reset="earliest")
    with Consumer(bootstrap, consumer=settings) as consumer:
        consumer.subscribe(re.compile(re.escape(name) + "-[ab]"))
        values: set[bytes | None] = set()
        until(lambda: bool(values.update(record.value for record in consumer.poll(500)) or len(values) == 2))
    assert values == {b"-a", b"-b"}


def test_positions_seek_pause_and_reset(bootstrap: str, name: str) -> None:
    a_topic(bootstrap, name, 2)
    one, two = TopicPartition(name, 0), TopicPartition(name, 1)
    with Producer(bootstrap) as producer:
        for number in range(20):
            producer.produce(name, f"{number}", partition=number % 2)
    with Consumer(bootstrap, consumer=ConsumerSettings(auto_offset_reset="earliest")) as consumer:
        consumer.assign([one, two])
        consumer.pause([two])
        first = consumer.poll(5_000, max_records=3)
        assert [(each.partition, each.offset) for each in first] == [(0, 0), (0, 1), (0, 2)]
        assert consumer.position(one) == 3
        consumer.seek(one, 8)
        assert [each.value for each in consumer.poll(5_000)] == [b"16", b"18"]
        consumer.pause([one])
        consumer.resume([two])
        assert [each.value for each in consumer.poll(5_000)] == [f"{2 * at + 1}".encode() for at in range(10)]
        consumer.resume([one])
        consumer.seek(one, 10_000)
        until(lambda: len(consumer.poll(500)) == 10)


def test_without_a_reset_policy_a_missing_offset_is_said(bootstrap: str, name: str) -> None:
    a_topic(bootstrap, name)
    with Consumer(bootstrap, consumer=ConsumerSettings(auto_offset_reset="none")) as consumer:
        consumer.assign([TopicPartition(name, 0)])
        with pytest.raises(ApiError, match="earliest or latest"):
            consumer.poll(1_000)


def test_a_batch_that_is_too_large_fails_with_the_brokers_reason(bootstrap: str, name: str) -> None:
    a_topic(bootstrap, name, max_message_bytes="1000")
    with Producer(bootstrap) as producer:
        wrong, right = producer.produce(name, b"x" * 5_000), None
        producer.flush(60)
        right = producer.produce(name, b"small")
        producer.flush(60)
        with pytest.raises(ApiError) as raised:
            wrong.result()
        assert raised.value.code is ErrorCode.MESSAGE_TOO_LARGE
        assert right.result().offset == 0


@pytest.mark.parametrize("acks", [0, 1])
def test_fewer_acks_work_too(bootstrap: str, name: str, acks: int) -> None:
    a_topic(bootstrap, name)
    with Producer(bootstrap, producer=ProducerSettings(acks=acks)) as producer:
        delivery = producer.produce(name, b"x")
        producer.flush(60)
        assert delivery.result().offset == (-1 if acks == 0 else 0)
    place = TopicPartition(name, 0)
    with Cluster(bootstrap) as cluster:
        until(lambda: cluster.list_offsets([place], LATEST)[place].offset == 1)


def test_topics_and_configurations_are_administered(bootstrap: str, name: str) -> None:
    with Admin(bootstrap) as admin:
        made = admin.create_topics([NewTopic(name, 2, 1, {"retention.ms": "1000"}), NewTopic("bad/name")])
        assert isinstance(made["bad/name"], ApiError)
        assert not isinstance(made[name], ApiError)
        assert len(admin.cluster.topic(name).partitions) == 2
        assert admin.create_partitions({name: 3}) == {name: None}
        until(lambda: len(admin.list_topics()[name].partitions) == 3)
        resource = Resource(ResourceType.TOPIC, name)
        assert admin.alter_configs({resource: [("retention.ms", ConfigOperation.DELETE, None)]}) == {resource: None}

        def described() -> list[tuple[str, str | None]]:
            found = admin.describe_configs([resource], keys=["retention.ms"])[resource]
            assert not isinstance(found, ApiError)
            return [(each.name, each.value) for each in found]

        until(lambda: described() == [("retention.ms", "604800000")])
        assert admin.delete_topics([name]) == {name: None}
        until(lambda: name not in admin.list_topics())
        refused = admin.delete_topics([name])[name]
        assert refused is not None
        assert refused.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_groups_are_administered(bootstrap: str, name: str) -> None:
    a_topic(bootstrap, name)
    with Admin(bootstrap) as admin:
        admin.commit_offsets(name, {TopicPartition(name, 0): CommittedOffset(0)})
        assert name in [group.group_id for group in admin.list_groups()]
        described = admin.describe_groups([name])[name]
        assert not isinstance(described, ApiError)
        assert described.group_state == "Empty"
        assert admin.delete_offsets(name, [TopicPartition(name, 0)]) == {TopicPartition(name, 0): None}
        admin.commit_offsets(name, {TopicPartition(name, 0): CommittedOffset(0)})
        assert admin.delete_groups([name]) == {name: None}
        gone = admin.delete_groups([name])[name]
        assert gone is not None
        assert gone.code is ErrorCode.GROUP_ID_NOT_FOUND


def a_peer(answer: bytes) -> int:
    """A port at which a server answers the first request with these bytes."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with listener, listener.accept()[0] as peer:
            peer.recv(1000)
            peer.sendall(answer)
            with contextlib.suppress(ConnectionResetError):
                peer.recv(1)

    threading.Thread(target=serve, daemon=True).start()
    return int(listener.getsockname()[1])


def test_a_peer_that_is_no_broker_is_found_out() -> None:
    with pytest.raises(ProtocolViolation, match="Kafka listener"):
        Connection("127.0.0.1", a_peer(b"HTTP/1.1 400 Bad Request\r\n\r\n"))
    with pytest.raises(ProtocolViolation):
        Connection("127.0.0.1", a_peer(b"\0\0\0\x0c" + b"\xff" * 12))


def test_a_peer_that_says_nothing_is_given_up_in_time() -> None:
    with pytest.raises(RequestTimedOut, match="300 ms"):
        Connection("127.0.0.1", a_peer(b""), settings=ClientSettings(request_timeout_ms=300))
