"""A client over its quota is told so at once, and its next request begins when the time it was told is over."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from types import SimpleNamespace
from typing import Any, cast

import pytest
from plain_requests import a_produce
from sim_broker import RawClient, SimBroker

from ottla.broker.measures import gather
from ottla.kernel.errors import ErrorCode
from ottla.kernel.quotas import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE
from ottla.messages.alter_client_quotas import (
    AlterClientQuotasEntry,
    AlterClientQuotasRequest,
    AlteredQuotaEntity,
    QuotaOperation,
)
from ottla.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.messages.describe_client_quotas import ClientQuotaComponent, DescribeClientQuotasRequest
from ottla.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.schema.codec import decode, encode
from ottla.wire.apis import APIS
from ottla.wire.connection import ServerConnection

_HEAD = Struct(">hhih")
PRODUCE, FETCH = 0, 1
PRODUCE_VERSION, FETCH_VERSION = 8, 11
VALUE = bytes(range(256)) * 8
OK, INVALID, UNSUPPORTED = 0, 42, 35


@pytest.fixture(scope="module")
def place() -> Iterator[SimBroker]:
    one = SimBroker()
    one.create_topic("t")
    yield one


@pytest.fixture(autouse=True)
def _no_quotas_and_old_rates(place: SimBroker) -> Iterator[None]:
    yield
    for entry in place.ask(DescribeClientQuotasRequest(components=[], strict=False)).entries:
        alter(place, {one.entity_type: one.entity_name for one in entry.entity}, **{q.key: None for q in entry.values})
    place.loop.run_for(12_000)


def entry_of(entity: dict[str, str | None], quotas: dict[str, float | None]) -> AlterClientQuotasEntry:
    return AlterClientQuotasEntry(
        entity=[AlteredQuotaEntity(entity_type=kind, entity_name=name) for kind, name in entity.items()],
        ops=[QuotaOperation(key=key, value=value or 0.0, remove=value is None) for key, value in quotas.items()],
    )


def alter(place: SimBroker, entity: dict[str, str | None], *, dry: bool = False, **quotas: float | None) -> int:
    said = place.ask(AlterClientQuotasRequest(entries=[entry_of(entity, quotas)], validate_only=dry))
    return int(said.entries[0].error_code)


def described(place: SimBroker, *components: tuple[str, int, str | None], strict: bool = False) -> Any:
    asked = [ClientQuotaComponent(entity_type=kind, match_type=how, match=name) for kind, how, name in components]
    said = place.ask(DescribeClientQuotasRequest(components=asked, strict=strict))
    if said.error_code:
        assert said.entries is None
        return said.error_code
    return [
        ({one.entity_type: one.entity_name for one in entry.entity}, {one.key: one.value for one in entry.values})
        for entry in said.entries
    ]


class Client(RawClient):
    """A client with an id, which sees its answers in order."""

    def __init__(self, place: SimBroker, client_id: str = "app") -> None:
        super().__init__(place)
        self._id = client_id.encode()

    def frame(self, key: int, version: int, request: Any) -> bytes:
        assert not APIS[key].is_flexible(version)
        return _HEAD.pack(key, version, 7, len(self._id)) + self._id + encode(request, version)

    def produce(self, times: int = 1, acks: int = 1) -> None:
        self.send(*[self.frame(PRODUCE, PRODUCE_VERSION, a_produce(VALUE, acks=acks))] * times)

    def fetch(self, session: int = 0, epoch: int = -1) -> None:
        asked = FetchTopic(topic="t", partitions=[FetchPartition(fetch_offset=0, partition_max_bytes=1 << 20)])
        request = FetchRequest(
            max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, session_id=session, session_epoch=epoch,
            topics=[asked] if epoch <= 0 else [],
        )  # fmt: skip
        self.send(self.frame(FETCH, FETCH_VERSION, request))

    def said(self, key: int, version: int) -> list[Any]:
        return [decode(APIS[key].response, version, memoryview(answer)[4:]) for answer in self.answers()]

    def produced(self) -> list[Any]:
        return self.said(PRODUCE, PRODUCE_VERSION)

    def fetched(self) -> list[Any]:
        return self.said(FETCH, FETCH_VERSION)


def test_a_producer_over_its_quota_is_answered_and_its_next_request_waits(place: SimBroker) -> None:
    assert alter(place, {"client-id": "app"}, producer_byte_rate=100) == OK
    client = Client(place)
    client.produce(2)
    (first,) = client.produced()
    assert first.responses[0].partition_responses[0].error_code == OK
    assert first.throttle_time_ms > 5000
    place.loop.run_for(first.throttle_time_ms - 200)
    assert len(client.produced()) == 1
    place.loop.run_for(200)
    assert len(client.produced()) == 2


def test_without_acks_a_producer_over_its_quota_waits_too(place: SimBroker) -> None:
    assert alter(place, {"client-id": "app"}, producer_byte_rate=100) == OK
    client = Client(place)
    client.produce(acks=0)
    client.produce()
    assert client.answers() == []
    place.loop.run_for(30_000)
    assert len(client.produced()) == 1


def test_others_are_served_while_a_client_waits(place: SimBroker) -> None:
    assert alter(place, {"client-id": "app"}, producer_byte_rate=100) == OK
    client, other = Client(place), Client(place, "other")
    client.produce(2)
    other.produce(3)
    assert len(client.answers()) == 1
    assert [each.throttle_time_ms for each in other.produced()] == [0, 0, 0]


def test_connections_of_one_client_share_its_rate(place: SimBroker) -> None:
    assert alter(place, {"user": "ANONYMOUS"}, producer_byte_rate=300) == OK
    one, other = Client(place, "one"), Client(place, "other")
    one.produce()
    other.produce()
    (first,), (second,) = one.produced(), other.produced()
    assert (first.throttle_time_ms, second.throttle_time_ms > 0) == (0, True)


def test_a_quota_counts_for_a_producer_whose_requests_are_known_by_their_shape(place: SimBroker) -> None:
    client = Client(place)
    client.produce(3)
    assert [each.throttle_time_ms for each in client.produced()] == [0, 0, 0]
    assert alter(place, {"client-id": None}, producer_byte_rate=100) == OK
    client.produce()
    assert client.produced()[-1].throttle_time_ms > 0


def test_a_connection_that_closes_while_it_waits_leaves_nothing_behind(place: SimBroker) -> None:
    assert alter(place, {"client-id": "app"}, producer_byte_rate=100) == OK
    client = Client(place)
    client.produce(2)
    client.wire.close()
    place.loop.run_for(60_000)
    assert len(client.answers()) == 1
    Client(place, "other").produce()


def test_a_consumer_over_its_quota_gets_nothing_and_then_what_it_asked_for(place: SimBroker) -> None:
    Client(place, "maker").produce(5)
    assert alter(place, {"client-id": "app"}, consumer_byte_rate=300) == OK
    client = Client(place)
    client.fetch()
    client.fetch()
    first, second = client.fetched()
    assert (first.throttle_time_ms, bool(first.responses[0].partitions[0].records)) == (0, True)
    assert (second.throttle_time_ms > 0, second.responses) == (True, [])
    client.fetch()
    assert len(client.answers()) == 2
    place.loop.run_for(second.throttle_time_ms)
    assert len(client.answers()) == 3
    place.loop.run_for(12_000)
    client.fetch()
    assert client.fetched()[3].responses[0].partitions[0].records


def test_a_session_goes_on_after_an_empty_answer(place: SimBroker) -> None:
    Client(place, "maker").produce(5)
    assert alter(place, {"client-id": "app"}, consumer_byte_rate=300) == OK
    client = Client(place)
    client.fetch(epoch=0)
    (opened,) = client.fetched()
    assert opened.session_id > 0
    client.fetch(opened.session_id, 1)
    held = client.fetched()[1]
    assert (held.session_id, held.error_code, held.responses, held.throttle_time_ms > 0) == (
        opened.session_id, OK, [], True,
    )  # fmt: skip
    place.loop.run_for(12_000)
    client.fetch(opened.session_id, 2)
    assert client.fetched()[2].responses[0].partitions[0].records


def test_a_session_that_would_begin_with_an_empty_answer_does_not_begin(place: SimBroker) -> None:
    Client(place, "maker").produce(5)
    assert alter(place, {"client-id": "app"}, consumer_byte_rate=300) == OK
    client = Client(place)
    client.fetch()
    kept = len(place.here.node.fetch_sessions)
    client.fetch(epoch=0)
    held = client.fetched()[1]
    assert (held.session_id, held.responses, held.throttle_time_ms > 0) == (0, [], True)
    assert len(place.here.node.fetch_sessions) == kept


def topics(*names: str, partitions: int = 1) -> CreateTopicsRequest:
    made = [CreatableTopic(name=name, num_partitions=partitions, replication_factor=1) for name in names]
    return CreateTopicsRequest(topics=made, timeout_ms=5000)


def test_a_client_over_its_quota_of_changes_is_refused_until_there_is_room_again(place: SimBroker) -> None:
    assert alter(place, {"client-id": None}, controller_mutation_rate=1) == OK
    first = place.ask(topics("m1", "m2", partitions=10))
    assert ([each.error_code for each in first.topics], first.throttle_time_ms) == ([OK, OK], 0)
    second = place.ask(topics("m3"))
    assert second.topics[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert 8000 <= second.throttle_time_ms <= 9000
    assert place.ask(topics("m1")).topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    gone = DeleteTopicsRequest(topics=[DeleteTopicState(name="m1")], timeout_ms=5000)
    assert place.ask(gone).responses[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    more = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="m1", count=11)], timeout_ms=5000)
    assert place.ask(more).results[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    place.loop.run_for(second.throttle_time_ms)
    assert place.ask(gone).responses[0].error_code == OK


def test_older_clients_over_their_quota_of_changes_are_served_and_wait(place: SimBroker) -> None:
    assert alter(place, {"client-id": None}, controller_mutation_rate=1) == OK
    said = place.ask(topics("o1", "o2", partitions=10), most=5)
    assert [each.error_code for each in said.topics] == [OK, OK]
    assert said.throttle_time_ms > 8000


@pytest.fixture
def slow(place: SimBroker) -> Iterator[list[int]]:
    """A broker whose clock of thread time goes on by this many milliseconds at each reading."""
    quotas, step_ms, now_ns = place.here.node.services.quotas, [30], 0
    before = quotas.now_ns

    def read() -> int:
        nonlocal now_ns
        now_ns += step_ms[0] * 1_000_000
        return now_ns

    quotas.now_ns = read
    yield step_ms
    quotas.now_ns = before


def test_a_client_that_takes_too_much_time_is_served_and_waits_a_second_at_most(
    place: SimBroker, slow: list[int]
) -> None:
    assert alter(place, {"client-id": "app"}, request_percentage=0.1) == OK
    client, other = Client(place), Client(place, "other")
    client.produce(2)
    other.produce(2)
    assert [each.throttle_time_ms for each in client.produced()] == [1000]
    assert [each.throttle_time_ms for each in other.produced()] == [0, 0]
    place.loop.run_for(1000)
    assert len(client.produced()) == 2


def test_a_client_below_its_share_of_time_does_not_wait(place: SimBroker, slow: list[int]) -> None:
    assert alter(place, {"client-id": "app"}, request_percentage=50) == OK
    client = Client(place)
    client.produce(3)
    assert [each.throttle_time_ms for each in client.produced()] == [0, 0, 0]


def test_the_largest_of_two_throttle_times_is_told(place: SimBroker, slow: list[int]) -> None:
    assert alter(place, {"client-id": "app"}, request_percentage=0.1, producer_byte_rate=100) == OK
    client = Client(place)
    client.produce()
    (told,) = client.produced()
    assert told.throttle_time_ms > 5000
    place.loop.run_for(12_000)
    assert alter(place, {"client-id": "app"}, producer_byte_rate=1 << 20) == OK
    client.produce()
    assert client.produced()[-1].throttle_time_ms == 1000


def test_the_time_of_a_fetch_counts_and_its_records_are_sent(place: SimBroker, slow: list[int]) -> None:
    Client(place, "maker").produce()
    assert alter(place, {"client-id": "app"}, request_percentage=0.1) == OK
    client = Client(place)
    client.fetch()
    (told,) = client.fetched()
    assert told.throttle_time_ms == 1000
    assert told.responses[0].partitions[0].records


def test_the_time_of_every_other_request_counts_too(place: SimBroker, slow: list[int]) -> None:
    assert alter(place, {"client-id": None}, request_percentage=0.1) == OK
    said = place.ask(DescribeClientQuotasRequest(components=[], strict=False))
    assert said.throttle_time_ms == 1000


def test_a_producer_without_acks_does_not_pay_for_time(place: SimBroker, slow: list[int]) -> None:
    assert alter(place, {"client-id": "app"}, request_percentage=0.1) == OK
    client = Client(place)
    client.produce(3, acks=0)
    client.produce()
    assert len(client.produced()) == 1


def test_metrics_tell_who_is_throttled_by_which_quota(place: SimBroker, slow: list[int]) -> None:
    def counted() -> dict[str, float]:
        names = ("ottla_throttled_requests_total", "ottla_throttle_seconds_total")
        samples = [one for one in gather(place.here.node) if one.metric.name in names]
        return {f"{one.metric.name} {one.labels[0]}": one.value for one in samples}

    before = counted()
    assert alter(place, {"client-id": "app"}, request_percentage=0.1) == OK
    Client(place).produce()
    after = counted()
    changed = {name: round(after[name] - before[name], 3) for name in after if after[name] != before[name]}
    assert changed == {
        "ottla_throttled_requests_total request_percentage": 1,
        "ottla_throttle_seconds_total request_percentage": 1,
    }


def test_brokers_have_no_quotas(place: SimBroker) -> None:
    assert alter(place, {"client-id": None}, producer_byte_rate=100, consumer_byte_rate=100, request_percentage=1) == OK
    quotas = place.here.node.services.quotas
    client = cast("ServerConnection", SimpleNamespace(peer=None, principal="User:ANONYMOUS", client_id="broker-2"))
    broker = cast("ServerConnection", SimpleNamespace(peer=2, principal="User:ANONYMOUS", client_id="broker-2"))
    limits = (quotas.limits_producer, quotas.consumer, quotas.time)
    assert [bool(limit(client)) for limit in limits] == [True, True, True]
    assert [bool(limit(broker)) for limit in limits] == [False, False, False]


def test_quotas_are_described_by_filters(place: SimBroker) -> None:
    both: dict[str, str | None] = {"client-id": None, "user": "alice"}
    assert alter(place, {"user": "alice"}, producer_byte_rate=10, consumer_byte_rate=20) == OK
    assert alter(place, both, producer_byte_rate=30) == OK
    alice = ({"user": "alice"}, {PRODUCER_BYTE_RATE: 10.0, CONSUMER_BYTE_RATE: 20.0})
    mixed = (both, {PRODUCER_BYTE_RATE: 30.0})
    assert described(place) == [alice, mixed] or described(place) == [mixed, alice]
    assert described(place, ("user", 0, "alice"), strict=True) == [alice]
    assert described(place, ("client-id", 1, None)) == [mixed]
    assert described(place, ("user", 2, None), ("client-id", 2, None), strict=True) == [mixed]
    assert described(place, ("user", 1, None)) == described(place, strict=True) == []
    assert alter(place, {"user": "alice"}, dry=True, producer_byte_rate=5) == OK
    assert alter(place, {"user": "alice"}, producer_byte_rate=None) == OK
    assert described(place, ("user", 0, "alice"), strict=True) == [({"user": "alice"}, {CONSUMER_BYTE_RATE: 20.0})]


def test_quotas_outlive_a_restart_of_the_broker(place: SimBroker) -> None:
    assert alter(place, {"user": "alice"}, producer_byte_rate=10) == OK
    place.restart(clean=True)
    assert described(place) == [({"user": "alice"}, {PRODUCER_BYTE_RATE: 10.0})]


@pytest.mark.parametrize(
    "entity",
    [{}, {"user": ""}, {"usr": "x"}, {"": "x"}, {"ip": "127.0.0.1", "user": "x"}, {"ip": "no.such.host"}],
)
def test_entities_that_there_are_not_are_refused(place: SimBroker, entity: dict[str, str | None]) -> None:
    assert alter(place, entity, producer_byte_rate=10) == INVALID
    assert described(place) == []


@pytest.mark.parametrize("value", [0, -1, 1.5, float("nan"), float("inf"), 2.0**63])
def test_values_that_no_quota_can_have_are_refused(place: SimBroker, value: float) -> None:
    entry = entry_of({"user": "x"}, {})
    entry.ops = [QuotaOperation(key=PRODUCER_BYTE_RATE, value=value)]
    assert place.ask(AlterClientQuotasRequest(entries=[entry])).entries[0].error_code == INVALID
    assert described(place) == []


@pytest.mark.parametrize("key", ["producer_byte_rat", "connection_creation_rate", "request_percentag"])
def test_quotas_that_a_client_cannot_have_are_refused_by_name(place: SimBroker, key: str) -> None:
    said = place.ask(AlterClientQuotasRequest(entries=[entry_of({"user": "x"}, {key: 5})])).entries[0]
    assert said.error_code == INVALID
    assert key in said.error_message


def test_what_is_named_twice_is_refused(place: SimBroker) -> None:
    entry = entry_of({"user": "x"}, {PRODUCER_BYTE_RATE: 5})
    said = place.ask(AlterClientQuotasRequest(entries=[entry, entry, entry_of({"user": "y"}, {PRODUCER_BYTE_RATE: 5})]))
    assert [each.error_code for each in said.entries] == [INVALID, INVALID, OK]
    entry.ops *= 2
    assert place.ask(AlterClientQuotasRequest(entries=[entry])).entries[0].error_code == INVALID
    assert [entity for entity, _ in described(place)] == [{"user": "y"}]


@pytest.mark.parametrize(
    ("components", "error"),
    [
        ([("group", 2, None)], UNSUPPORTED),
        ([("", 2, None)], INVALID),
        ([("user", 2, None), ("user", 1, None)], INVALID),
        ([("ip", 2, None), ("user", 2, None)], INVALID),
        ([("user", 0, None)], INVALID),
        ([("user", 1, "x")], INVALID),
        ([("user", 3, None)], INVALID),
    ],
)
def test_filters_that_cannot_be_meant_are_refused(
    place: SimBroker, components: list[tuple[str, int, str | None]], error: int
) -> None:
    assert described(place, *components) == error
