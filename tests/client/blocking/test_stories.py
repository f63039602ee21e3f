"""Several stories on one thread: each waits for its own broker, and for nothing else."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.client.blocking.sockets import now_ms
from ottla.client.blocking.stories import Stories
from ottla.client.core.effects import Ask, AskAll, Pause
from ottla.client.errors import BrokerUnreachable, ClientError, RequestTimedOut
from ottla.client.model import ClientSettings, Destination
from ottla.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from ottla.testing import TestBroker

LARGE = bytes(16 << 20)
"""More than the buffers of a connection hold."""


@pytest.fixture
def answering(ours: str) -> Destination:
    host, port = ours.split(":")
    return Destination(host, int(port))


@pytest.fixture
def silent() -> Iterator[Destination]:
    """The address of a listener that takes connections and answers nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield Destination("127.0.0.1", listener.getsockname()[1])


@pytest.fixture
def hung() -> Iterator[tuple[Destination, Callable[[], None], Callable[[], None]]]:
    """The address of a broker, and calls that make it hang and go on."""
    hangs, goes_on = threading.Event(), threading.Event()
    with TestBroker() as broker:
        host, port = broker.bootstrap_servers.split(":")

        def wait() -> None:
            hangs.set()
            goes_on.wait()

        def hang() -> None:
            assert broker._loop is not None
            broker._loop.call_soon_threadsafe(wait)
            assert hangs.wait(60)

        try:
            yield Destination(host, int(port)), hang, goes_on.set
        finally:
            goes_on.set()


@pytest.fixture
def stories() -> Iterator[Stories[Any]]:
    made: Stories[Any] = Stories(ClientSettings())
    yield made
    made.close()


def groups_of(where: Destination, timeout_ms: int | None = None) -> Ask[ListGroupsResponse]:
    return Ask(where, ListGroupsRequest, ListGroupsResponse, lambda _: ListGroupsRequest(), timeout_ms=timeout_ms)


async def ask(where: Destination, timeout_ms: int | None = None) -> Any:
    """The port that was asked, and the error code of the answer or the error."""
    try:
        return where.port, (await groups_of(where, timeout_ms)).error_code
    except ClientError as fault:
        return where.port, fault


def next_ended(stories: Stories[Any]) -> list[Any]:
    """The results of the stories that end next."""
    until_ms = now_ms() + 60_000
    while not (ended := stories.wait(until_ms)):
        assert now_ms() < until_ms
    return ended


def test_a_story_does_not_wait_for_the_connection_of_another(
    stories: Stories[Any], silent: Destination, answering: Destination
) -> None:
    stories.begin(ask(silent))
    for _ in range(3):
        stories.begin(ask(answering))
        assert next_ended(stories) == [(answering.port, 0)]


def test_a_story_does_not_wait_for_the_answer_of_another_broker(
    stories: Stories[Any], hung: tuple[Destination, Callable[[], None], Callable[[], None]], answering: Destination
) -> None:
    where, hang, go_on = hung
    stories.begin(ask(where))
    assert next_ended(stories) == [(where.port, 0)]
    hang()
    stories.begin(ask(where))
    for _ in range(3):
        stories.begin(ask(answering))
        assert next_ended(stories) == [(answering.port, 0)]
    go_on()
    assert next_ended(stories) == [(where.port, 0)]


@pytest.mark.parametrize("acks", [-1, 0])
def test_a_story_does_not_wait_until_another_broker_takes_a_large_request(
    stories: Stories[Any],
    hung: tuple[Destination, Callable[[], None], Callable[[], None]],
    answering: Destination,
    acks: int,
) -> None:
    where, hang, go_on = hung
    topics = [TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=memoryview(LARGE))])]
    request = ProduceRequest(acks=acks, timeout_ms=1_000, topic_data=topics)

    async def produce() -> str:
        await Ask(where, ProduceRequest, ProduceResponse, lambda _: request, max_version=9)
        return "sent"

    stories.begin(ask(where))
    assert next_ended(stories) == [(where.port, 0)]
    hang()
    stories.begin(produce())
    for _ in range(3):
        stories.begin(ask(answering))
        assert next_ended(stories) == [(answering.port, 0)]
    go_on()
    assert next_ended(stories) == ["sent"]


def test_a_request_that_is_late_fails_with_all_others_of_its_connection(
    stories: Stories[Any], hung: tuple[Destination, Callable[[], None], Callable[[], None]]
) -> None:
    where, hang, go_on = hung
    stories.begin(ask(where))
    next_ended(stories)
    hang()
    stories.begin(ask(where, 100))
    stories.begin(ask(where))
    faults = [fault for _, fault in next_ended(stories)]
    assert [type(fault) for fault in faults] == [RequestTimedOut] * 2
    go_on()
    stories.begin(ask(where))
    assert next_ended(stories) == [(where.port, 0)]


def test_a_connection_that_the_broker_ends_is_given_up_at_once(stories: Stories[Any]) -> None:
    with TestBroker() as broker:
        host, port = broker.bootstrap_servers.split(":")
        where = Destination(host, int(port))
        stories.begin(ask(where))
        assert next_ended(stories) == [(where.port, 0)]
    until_ms = now_ms() + 60_000
    while stories._open_lines:
        assert now_ms() < until_ms
        assert stories.wait(now_ms() + 10) == []
    stories.begin(ask(where))
    ((_, fault),) = next_ended(stories)
    assert isinstance(fault, BrokerUnreachable)


def test_errors_stand_for_the_answers_that_several_requests_lack(stories: Stories[Any], answering: Destination) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        refusing = Destination("127.0.0.1", listener.getsockname()[1])

    async def ask_both() -> list[Any]:
        return await AskAll([groups_of(refusing), groups_of(answering)])

    stories.begin(ask_both())
    ((refused, answer),) = next_ended(stories)
    assert isinstance(refused, BrokerUnreachable)
    assert answer.error_code == 0


def test_a_pause_ends_while_a_request_stays_unanswered(stories: Stories[Any], silent: Destination) -> None:
    async def pause() -> str:
        await Pause(1)
        return "over"

    stories.begin(ask(silent))
    stories.begin(pause())
    assert next_ended(stories) == ["over"]


def test_stories_without_an_effect_have_ended_when_they_are_waited_for(stories: Stories[Any]) -> None:
    async def nothing() -> list[Any]:
        return await AskAll([])

    stories.begin(nothing())
    assert stories.wait(float("inf")) == [[]]


def test_another_thread_ends_the_wait(stories: Stories[Any]) -> None:
    waker = threading.Thread(target=stories.wake)
    waker.start()
    assert stories.wait(float("inf")) == []
    waker.join()
    assert stories.wait(0) == []


def test_closing_ends_stories_and_the_connections_that_are_being_opened(silent: Destination) -> None:
    ended = threading.Event()

    async def story() -> None:
        try:
            await groups_of(silent)
        finally:
            ended.set()

    stories: Stories[None] = Stories(ClientSettings(request_timeout_ms=200))
    stories.begin(story())
    stories.close()
    assert ended.is_set()
    for thread in threading.enumerate():
        if thread.name == f"ottla-connect-{silent}":
            thread.join(60)
            assert not thread.is_alive()
