"""Requests of every API, at its lowest and its highest version, by users of every kind: the errors of both brokers.

The same requests go to ottla and to an Apache Kafka 4.3.1 that runs beside it. The differences are listed here, with
their reasons; one more, or one less, fails the test.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from typing import Any

import pytest
from apache_kafka import NODE_ID, ApacheKafka
from tests.access.limited import STANDARD_AUTHORIZER, Limited
from tests.access.rights_requests import NAMES, TRANSACTION, acl, batch, errors_in, everything, request_of
from tests.ports import free_port

from ottla.kernel.acls import Operation, ResourceKind
from ottla.messages.create_acls import AclCreation
from ottla.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.messages.find_coordinator import FindCoordinatorRequest
from ottla.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.apis import APIS

pytestmark = [pytest.mark.compat, pytest.mark.kafka]

USERS = ("nobody", "denied", "elsewhere", "exact", "prefix", "wild", "root")
TOPIC = NAMES[ResourceKind.TOPIC]
PATIENCE_S = 60.0
JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required "
DIFFERENT = {
    "AlterUserScramCredentials": "an empty salt: Kafka's controller fails and answers -1, ottla says 93",
}
"""APIs whose errors differ, with the reason."""


class BesideKafka(Limited):
    """Apache Kafka with the same users and ACLs."""

    def __init__(self) -> None:
        plain, secured, controller = free_port(), free_port(), free_port()
        self._address = ("127.0.0.1", secured)
        at = f"PLAINTEXT://127.0.0.1:{plain},SASL_PLAINTEXT://127.0.0.1:{secured}"
        self.node = ApacheKafka(
            {
                "listeners": f"{at},CONTROLLER://127.0.0.1:{controller}",
                "advertised.listeners": at,
                "listener.security.protocol.map":
                    "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
                "controller.quorum.voters": f"{NODE_ID}@127.0.0.1:{controller}",
                "sasl.enabled.mechanisms": "PLAIN",
                "listener.name.sasl_plaintext.plain.sasl.jaas.config":
                    JAAS + " ".join(f'user_{user}="{user}"' for user in USERS) + ";",
                "authorizer.class.name": STANDARD_AUTHORIZER,
                "super.users": "User:root;User:ANONYMOUS",
                "offsets.topic.num.partitions": "1",
                "transaction.state.log.num.partitions": "1",
            }
        )  # fmt: skip
        self.node.port = plain
        self.topic_id = b""

    @property
    def address(self) -> tuple[str, int]:
        return self._address


def acls() -> Iterator[AclCreation]:
    yield from everything("exact")
    for kind, name in NAMES.items():
        one = kind is ResourceKind.CLUSTER
        yield acl("prefix", Operation.ALL, kind, name if one else name[:3], prefixed=not one)
        yield acl("wild", Operation.ALL, kind, name if one else "*")
        yield acl("denied", Operation.ALL, kind, name)
        yield acl("denied", Operation.ALL, kind, name, deny=True)
        yield acl("elsewhere", Operation.ALL, kind, name, host="10.9.8.7")


def made_ready(limited: Limited) -> None:
    """ACLs, and coordinators and a topic that answer."""
    limited.grant(*acls())
    topic_is_there(limited)
    for kind, name in ((0, NAMES[ResourceKind.GROUP]), (1, TRANSACTION)):
        asked = FindCoordinatorRequest(key_type=kind, coordinator_keys=[name])
        until(lambda asked=asked: limited.ask("root", 10, 6, asked).coordinators[0].error_code == 0)


def topic_is_there(limited: Limited) -> None:
    """Make the topic if it is not there; wait until the broker leads it."""

    def led() -> bool:
        topic = described(limited)
        if topic.error_code == 3:
            made = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
            limited.ask("root", 19, 7, CreateTopicsRequest(topics=[made], timeout_ms=20_000))
            return False
        limited.topic_id = topic.topic_id
        return topic.error_code == 0 and topic.partitions[0].error_code == 0

    until(led)


def described(limited: Limited) -> Any:
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)], allow_auto_topic_creation=False)
    return limited.ask("root", 3, 12, asked).topics[0]


def until(condition: Any) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def versions_of(limited: Limited) -> dict[int, tuple[int, int]]:
    with limited.user("root") as raw:
        said = raw.ask(18, 0, b"")
    assert said is not None
    found = (struct.unpack_from(">hhh", said, at) for at in range(6, len(said) - 5, 6))
    return {key: (first, last) for key, first, last in found}


def answers_of(limited: Limited, served: dict[int, tuple[int, int]]) -> dict[tuple[str, int, str], str]:
    """The errors in each answer, as text."""
    found = {}
    for key, api in APIS.items():
        if key in (17, 36) or key not in served:
            continue
        first, last = max(api.served.first, served[key][0]), min(api.served.last, served[key][1])
        for version in sorted({first, last}):
            for user in USERS:
                topic_is_there(limited)
                request = sensible(request_of(key, version, limited.topic_id), key)
                try:
                    said = limited.ask(user, key, version, request)
                    told = "closed" if said is None else " ".join(map(str, sorted(errors_in(said, version))))
                except TimeoutError:
                    told = "silent"
                found[api.name, version, user] = told
                if key == 20 and told == "0":
                    until(lambda: described(limited).error_code == 3)
    return found


def sensible(request: Any, key: int) -> Any:
    """The request without what is wrong in it whatever the rights: the two brokers look at that in their own order.

    Kafka closes the connection on an ACL's type that it does not know, to which ottla answers 42; it says of a topic
    that is deleted by name and by id 42 before it looks at rights.
    """
    if hasattr(request, "timeout_ms"):
        request.timeout_ms = 20_000
    if key == 0:
        request.topic_data[0].partition_data[0].records = batch()
    if key == 19:
        request.topics[0].configs = []
    if key == 20 and request.topics:
        request.topics[0].topic_id = bytes(16)
    for one in (request, *getattr(request, "creations", ()), *getattr(request, "filters", ())):
        for field in ("resource_type", "resource_type_filter"):
            if key in (29, 30, 31) and hasattr(one, field):
                setattr(one, field, 2)
        for field, value in (("pattern_type_filter", 3), ("resource_pattern_type", 3), ("operation", 3),
                             ("permission_type", 3), ("principal", "User:x"), ("host", "*")):  # fmt: skip
            if key in (29, 30, 31) and hasattr(one, field):
                setattr(one, field, value)
    if key == 51:
        request.deletions, (upsertion,) = [], request.upsertions
        upsertion.mechanism, upsertion.iterations = 1, 4096
    return request


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[dict[tuple[str, int, str], str], dict[tuple[str, int, str], str]]]:
    theirs = BesideKafka()
    ours = Limited(USERS)
    with theirs.node, ours.broker:
        for limited in (theirs, ours):
            made_ready(limited)
        kafkas, own = versions_of(theirs), versions_of(ours)
        shared = {
            key: (max(first, own[key][0]), min(last, own[key][1]))
            for key, (first, last) in kafkas.items()
            if key in own
        }
        yield answers_of(ours, shared), answers_of(theirs, shared)


def test_both_brokers_answer_each_kind_of_user_with_the_same_errors(both: Any) -> None:
    ours, theirs = both
    assert ours.keys() == theirs.keys()
    assert len({name for name, _, _ in ours}) > 55
    differences = {place: (ours[place], theirs[place]) for place in ours if ours[place] != theirs[place]}
    unknown = {place: said for place, said in differences.items() if place[0] not in DIFFERENT}
    assert not unknown, "\n".join(f"{place}: ours {mine}, Kafka's {other}" for place, (mine, other) in unknown.items())
    assert set(DIFFERENT) <= {name for name, _, _ in differences}
