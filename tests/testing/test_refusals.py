"""An injected error arrives in every version of every API, where clients look for it."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.messages.headers import RequestHeader
from ottla.schema.codec import decoder, encode
from ottla.schema.message import schema_of
from ottla.schema.types import Array, Text
from ottla.testing import TestBroker
from ottla.wire.apis import APIS, Api

ERROR = ErrorCode.POLICY_VIOLATION
"""An error that no handler returns by itself."""

NAMES = ("name", "topic", "topic_name", "group_id", "key", "resource_name")


def a_request(cls: type, version: int) -> Any:
    """A message of a version with one element in each list."""
    message = cls()
    for field in schema_of(cls).fields:
        if not field.is_in(version):
            continue
        if isinstance(field.kind, Array):
            inner = field.struct
            element = a_request(inner, version) if inner else "asked" if isinstance(field.kind.element, Text) else 0
            setattr(message, field.name, [element])
        elif isinstance(field.kind, Text):
            setattr(message, field.name, "asked")
        elif field.name == "acks":
            setattr(message, field.name, -1)
    return message


def errors_in(message: Any, version: int) -> Iterator[int]:
    """Every error code in an answer."""
    for field in schema_of(type(message)).fields:
        value = getattr(message, field.name)
        if field.name in ("error_code", "partition_error_code") and field.is_in(version):
            yield value
        if field.struct is not None:
            for item in value if isinstance(value, list) else [value] if value is not None else []:
                yield from errors_in(item, version)


def names_in(message: Any) -> Iterator[str]:
    for field in schema_of(type(message)).fields:
        value = getattr(message, field.name)
        if field.name in NAMES and value:
            yield value
        if field.struct is not None and isinstance(value, list):
            for item in value:
                yield from names_in(item)


def ask(connection: socket.socket, api: Api, version: int, message: Any) -> Any:
    """Send one request and decode its answer; None if the broker closed the connection."""
    header = RequestHeader(request_api_key=api.key, request_api_version=version, correlation_id=7, client_id="refusals")
    frame = encode(header, api.request_header_version(version)) + encode(message, version)
    connection.sendall(len(frame).to_bytes(4, "big") + frame)
    head = connection.recv(4, socket.MSG_WAITALL)
    if not head:
        return None
    body = memoryview(connection.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL))
    assert body[:4] == (7).to_bytes(4, "big")
    answer, end = decoder(api.response, version)(body, 4 + api.response_header_version(version))
    assert end == len(body), "bytes are left over"
    return answer


@pytest.fixture(scope="module")
def broker() -> Iterator[TestBroker]:
    with TestBroker() as broker:
        yield broker


def connect(broker: TestBroker) -> socket.socket:
    host, _, port = broker.bootstrap_servers.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=60)


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_every_version_of_an_api_says_an_injected_error(broker: TestBroker, api: Api) -> None:
    with connect(broker) as connection:
        for version in range(api.served.first, api.served.last + 1):
            broker.fail(api.name, ERROR)
            answer = ask(connection, api, version, a_request(api.request, version))
            assert answer is not None, f"version {version} closed the connection"
            found = list(errors_in(answer, version))
            assert found, f"version {version} has no error: {answer}"
            assert set(found) <= {ERROR, ErrorCode.NONE}, f"version {version}: {answer}"
            assert ERROR in found, f"version {version}: {answer}"
            assert set(names_in(answer)) <= {"asked"}


def test_things_that_were_asked_for_are_named_in_the_refusal(broker: TestBroker) -> None:
    api = APIS[2]
    with connect(broker) as connection:
        broker.fail("ListOffsets", ERROR)
        request = a_request(api.request, 11)
        request.topics[0].partitions[0].partition_index = 4
        answer = ask(connection, api, 11, request)
    assert [(topic.name, [(each.partition_index, each.error_code) for each in topic.partitions])
            for topic in answer.topics] == [("asked", [(4, ERROR)])]  # fmt: skip


def test_an_answer_without_a_place_for_errors_closes_the_connection(broker: TestBroker) -> None:
    api = APIS[3]
    request = api.request()
    request.topics = None
    with connect(broker) as connection:
        broker.fail("Metadata", ERROR)
        assert ask(connection, api, 12, request) is None
    with connect(broker) as connection:
        assert ask(connection, api, 12, request).brokers


def test_a_session_error_is_said_of_the_whole_fetch(broker: TestBroker) -> None:
    api = APIS[1]
    with connect(broker) as connection:
        broker.fail("Fetch", ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        answer = ask(connection, api, 12, a_request(api.request, 12))
    assert (answer.error_code, answer.responses) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, [])


def test_only_as_many_requests_fail_as_were_asked_for(broker: TestBroker) -> None:
    api = APIS[3]
    with connect(broker) as connection:
        broker.fail("Metadata", ERROR, times=2)
        answers = [ask(connection, api, 13, a_request(api.request, 13)) for _ in range(3)]
    assert [answer.error_code == ERROR for answer in answers] == [True, True, False]
