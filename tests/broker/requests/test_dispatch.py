"""Each request gets its answer in order; other frames end the connection, and a handler's bug costs one request."""

from __future__ import annotations

import gc
import logging
from contextlib import nullcontext
from struct import pack
from typing import Any

import pytest
from sim_broker import RawClient, SimBroker

from ottla.broker.requests import dispatch
from ottla.kernel.errors import ErrorCode, InvariantBroken
from ottla.kernel.story import Slot
from ottla.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.messages.init_producer_id import InitProducerIdResponse
from ottla.records.builder import build_batch
from ottla.records.reader import Record
from ottla.storage.bounds import LogBounds

PRODUCE, FETCH, METADATA, API_VERSIONS, CREATE_TOPICS, INIT_PRODUCER_ID = 0, 1, 3, 18, 19, 22


def head(key: int, version: int, correlation_id: int) -> bytes:
    return pack(">hhih", key, version, correlation_id, -1)


def metadata(correlation_id: int) -> bytes:
    return head(METADATA, 1, correlation_id) + pack(">i", 0)


def produce(correlation_id: int, acks: int) -> bytes:
    records = build_batch([Record(0, 1_700_000_000_000, None, b"value")])
    topic = pack(">h", 1) + b"t"
    partition = pack(">ii", 0, len(records)) + records
    return head(PRODUCE, 7, correlation_id) + pack(">hhii", -1, acks, 1000, 1) + topic + pack(">i", 1) + partition


def fetch(correlation_id: int, max_wait_ms: int) -> bytes:
    """A fetch from the start of "t", without a session."""
    partition = pack(">iiqqi", 0, -1, 0, -1, 1 << 20)
    topic = pack(">h", 1) + b"t" + pack(">i", 1) + partition
    limits = pack(">iiiibii", -1, max_wait_ms, 1, 1 << 20, 0, 0, -1)
    return head(FETCH, 9, correlation_id) + limits + pack(">i", 1) + topic + pack(">i", 0)


def create_topics(name: str) -> bytes:
    topic = pack(f">h{len(name)}sihii", len(name), name.encode(), 1, 1, 0, 0)
    return head(CREATE_TOPICS, 2, 1) + pack(">i", 1) + topic + pack(">ib", 1000, 0)


def correlation_ids(client: RawClient) -> list[int]:
    return [int.from_bytes(answer[:4], "big") for answer in client.answers()]


@pytest.fixture
def broker() -> SimBroker:
    return SimBroker()


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\0\3",
        head(999, 0, 1),
        head(METADATA, 99, 1),
        head(METADATA, 1, 1) + pack(">i", 1_000_000),
        pack(">hhih", METADATA, 1, 1, 100) + b"short",
        head(PRODUCE, 7, 1) + b"\xff" * 20,
    ],
    ids=["empty", "half a header", "unknown key", "unknown version", "count", "client id", "rubbish"],
)
def test_what_is_no_request_closes_its_connection_and_no_other(broker: SimBroker, frame: bytes):
    good, bad = RawClient(broker), RawClient(broker)
    bad.send(frame)
    good.send(metadata(7))
    assert bad.lost
    assert bad.answers() == []
    assert broker.here.node.dispatch.malformed == 1
    assert correlation_ids(good) == [7]


def test_api_versions_is_answered_in_any_version(broker: SimBroker):
    client = RawClient(broker)
    client.send(head(API_VERSIONS, 77, 5))
    (answer,) = client.answers()
    assert answer[:4] == pack(">i", 5)
    assert answer[4:6] == pack(">h", ErrorCode.UNSUPPORTED_VERSION)
    assert not client.lost


def test_answers_leave_in_the_order_of_the_requests(broker: SimBroker):
    """The answer with metadata is ready at once; the produce before it waits for the disk."""
    broker.create_topic()
    broker.machine.set_sync_us((20_000, 20_000))
    client = RawClient(broker)
    client.wire.write(b"".join(pack(">i", len(f)) + f for f in (produce(1, -1), metadata(2), produce(3, 1))))
    broker.loop.run_for(10)
    assert client.answers() == []
    broker.loop.run_for(100)
    assert correlation_ids(client) == [1, 2, 3]


def test_a_produce_without_acks_takes_no_place_among_the_answers(broker: SimBroker):
    broker.create_topic()
    client = RawClient(broker)
    client.send(produce(1, 0), metadata(2))
    assert correlation_ids(client) == [2]


def test_a_handlers_bug_costs_one_request(broker: SimBroker):
    async def broken(call: Any, request: Any) -> Any:
        raise ZeroDivisionError

    serving = broker.here.node.dispatch
    serving._handlers[INIT_PRODUCER_ID] = broken
    client = RawClient(broker)
    client.send(head(INIT_PRODUCER_ID, 0, 1) + pack(">hi", -1, 1000), metadata(2))
    refused, served = client.answers()
    assert refused[8:10] == pack(">h", ErrorCode.UNKNOWN_SERVER_ERROR)
    assert served[:4] == pack(">i", 2)
    assert serving.bugs == 1


def served_by(broker: SimBroker, handler: Any) -> tuple[RawClient, list[str]]:
    """Serve one request with this handler; return the client, and the broker's reason if that stopped it."""
    node = broker.here.node
    stopped: list[str] = []
    node.around.failures.on_fatal = stopped.append
    node.dispatch._handlers[INIT_PRODUCER_ID] = handler
    client = RawClient(broker)
    client.send(head(INIT_PRODUCER_ID, 0, 1) + pack(">hi", -1, 1000))
    return client, stopped


def test_a_broken_invariant_stops_the_broker_with_its_sentence(broker: SimBroker):
    async def handler(call: Any, request: Any) -> Any:
        LogBounds().truncated(1)

    client, (stopped,) = served_by(broker, handler)
    assert "InvariantBroken: a log is cut at 1, behind its end: LogBounds(" in stopped
    assert client.answers()[0][8:10] == pack(">h", ErrorCode.UNKNOWN_SERVER_ERROR)


@pytest.mark.parametrize("module", ["ottla.broker.handlers.produce", "ottla.storage.log", "ottla.metadata.state"])
def test_an_assert_costs_one_request_wherever_it_stands(broker: SimBroker, module: str):
    scope: dict[str, Any] = {"__name__": module}
    exec("def fails():\n    assert False", scope)

    async def handler(call: Any, request: Any) -> Any:
        scope["fails"]()

    client, stopped = served_by(broker, handler)
    assert client.answers()[0][8:10] == pack(">h", ErrorCode.UNKNOWN_SERVER_ERROR)
    assert stopped == []
    assert not client.lost


@pytest.mark.parametrize("fault", [InvariantBroken("two segments overlap"), AssertionError("a bug")])
def test_outside_of_a_handler_a_fault_of_ours_ends_the_connection_and_only_a_broken_invariant_the_broker(
    broker: SimBroker, monkeypatch: pytest.MonkeyPatch, fault: Exception
):
    """A Produce like the one before it is served without a handler."""

    def fails(*arguments: Any) -> bool:
        raise fault

    broker.create_topic()
    stopped: list[str] = []
    broker.here.node.around.failures.on_fatal = stopped.append
    client = RawClient(broker)
    client.send(produce(1, 1), produce(2, 1))
    monkeypatch.setattr(dispatch, "produce_again", fails)
    raises = isinstance(fault, AssertionError)
    with pytest.raises(AssertionError, match="a bug") if raises else nullcontext():
        client.send(produce(3, 1))
    broker.loop.run_for(50)
    assert client.lost and len(client.answers()) == 2
    assert [("two segments overlap" in why) for why in stopped] == [True][raises:]


NOT_ENCODABLE = InitProducerIdResponse(producer_epoch=1 << 40)


def test_an_answer_that_cannot_be_encoded_costs_one_request(broker: SimBroker):
    async def handler(call: Any, request: Any) -> Any:
        return NOT_ENCODABLE

    client, _ = served_by(broker, handler)
    client.send(metadata(2))
    refused, served = client.answers()
    assert refused[8:10] == pack(">h", ErrorCode.UNKNOWN_SERVER_ERROR)
    assert served[:4] == pack(">i", 2)
    assert broker.here.node.dispatch.bugs == 1


def test_whoever_fills_a_slot_never_hears_that_the_answer_cannot_be_encoded(broker: SimBroker):
    awaited: Slot[None] = Slot()

    async def handler(call: Any, request: Any) -> Any:
        await awaited
        return NOT_ENCODABLE

    client, _ = served_by(broker, handler)
    client.send(metadata(2))
    assert client.answers() == []
    awaited.fill(None)
    broker.loop.run_for(50)
    refused, served = client.answers()
    assert refused[8:10] == pack(">h", ErrorCode.UNKNOWN_SERVER_ERROR)
    assert served[:4] == pack(">i", 2)


def test_an_unknown_request_is_logged_once_with_its_key_and_the_software_that_sent_it(broker: SimBroker, caplog: Any):
    client = RawClient(broker)
    client.send(head(API_VERSIONS, 3, 1) + b"\0" + b"\x0blibrdkafka" + b"\x072.16.1" + b"\0")
    client.send(head(999, 0, 2))
    (line,) = [each.getMessage() for each in caplog.records if "invalid request" in each.getMessage()]
    assert "unknown API key 999" in line
    assert "(librdkafka 2.16.1)" in line


@pytest.mark.parametrize("waits", [False, True])
def test_where_the_refusal_cannot_be_encoded_either_the_connection_is_closed(broker: SimBroker, waits: bool):
    awaited: Slot[None] = Slot()
    if not waits:
        awaited.fill(None)

    async def handler(call: Any, request: Any) -> Any:
        request.topics[0].name = "a" * 0x8000
        await awaited
        raise ZeroDivisionError

    broker.here.node.dispatch._handlers[CREATE_TOPICS] = handler
    client, other = RawClient(broker), RawClient(broker)
    client.send(create_topics("ok"), metadata(2))
    awaited.fill(None)
    broker.loop.run_for(50)
    assert client.lost and client.answers() == []
    other.send(metadata(3))
    assert correlation_ids(other) == [3]
    assert broker.here.fatal is None


@pytest.mark.parametrize("length", [32_700, 32_767])
def test_a_topic_of_the_longest_name_is_refused_and_the_others_are_created(broker: SimBroker, length: int):
    """The name and its error message do not fit into one string; frames from 32 KiB on are served in several turns."""
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in ("ok", "a" * length)]
    answer = broker.ask(CreateTopicsRequest(topics=topics))
    assert [topic.error_code for topic in answer.topics] == [ErrorCode.NONE, ErrorCode.INVALID_TOPIC_EXCEPTION]
    assert answer.topics[1].name == "a" * length
    assert answer.topics[1].error_message.startswith("Topic name is invalid: ")
    assert broker.here.fatal is None


def test_a_request_without_a_client_id_has_none(broker: SimBroker):
    seen: list[str] = []

    async def handler(call: Any, request: Any) -> Any:
        seen.append(call.client_id)
        raise ZeroDivisionError

    broker.here.node.dispatch._handlers[INIT_PRODUCER_ID] = handler
    client = RawClient(broker)
    body = pack(">hi", -1, 1000)
    named = pack(">hhih3s", INIT_PRODUCER_ID, 0, 1, 3, b"one")
    nameless = pack(">hhih", INIT_PRODUCER_ID, 0, 2, -1)
    client.send(named + body, nameless + body)
    assert seen == ["one", ""]


def test_requests_are_counted_by_api(broker: SimBroker):
    before = broker.here.node.dispatch.requests[METADATA]
    client = RawClient(broker)
    client.send(metadata(1), metadata(2))
    assert broker.here.node.dispatch.requests[METADATA] == before + 2


def test_a_request_in_pieces_is_served_once_it_is_whole(broker: SimBroker):
    client = RawClient(broker)
    frame = metadata(9)
    for byte in pack(">i", len(frame)) + frame:
        assert client.answers() == []
        client.wire.write(bytes([byte]))
        broker.loop.run_for(1)
    assert correlation_ids(client) == [9]


def test_a_broker_that_is_thrown_away_while_a_fetch_waits_says_nothing(caplog: pytest.LogCaptureFixture):
    broker = SimBroker()
    client = RawClient(broker)
    client.send(create_topics("t"))
    client.send(fetch(2, max_wait_ms=60_000))
    assert correlation_ids(client) == [1], "it waits for a record"
    assert not client.lost
    with caplog.at_level(logging.ERROR):
        del broker, client
        gc.collect()
    assert not caplog.records
