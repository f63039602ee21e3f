"""A caller cannot tell what it may not see from what is not there: the same bytes, and nothing made or looked up."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.access.limited import Limited
from tests.access.rights_requests import GROUP, TOPIC, TRANSACTION, acl, batch, request_of

from ottla.kernel.acls import Operation, ResourceKind
from ottla.messages.init_producer_id import InitProducerIdRequest
from ottla.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.messages.metadata import MetadataRequest
from ottla.schema.codec import encode
from ottla.wire.apis import APIS

ABSENT = {TOPIC: "nooks", GROUP: "raiders", TRANSACTION: "waiter"}
"""Names of the same length that nothing has."""
USERS = {
    "nobody": (),
    "of-groups": (ResourceKind.GROUP, ResourceKind.TRANSACTIONAL_ID),
    "of-topics": (ResourceKind.TOPIC,),
}
"""Users, and the kinds of resources that they have all rights to, but for those with the names above."""
_BOUND = (17, 36)
named: set[int] = set()
"""The APIs whose requests had a name in them."""


@pytest.fixture(scope="module")
def limited() -> Iterator[Limited]:
    one = Limited(list(USERS))
    with one.broker:
        one.make_topic()
        one.make_coordinators()
        protocol = JoinGroupRequestProtocol(name="range", metadata=b"")
        join = JoinGroupRequest(group_id=GROUP, session_timeout_ms=300_000, rebalance_timeout_ms=300_000,
                                protocol_type="consumer", protocols=[protocol])  # fmt: skip
        assert one.ask("root", 11, 3, join).error_code == 0
        begun = InitProducerIdRequest(transactional_id=TRANSACTION, transaction_timeout_ms=60_000)
        assert one.ask("root", 22, 4, begun).error_code == 0
        for user, kinds in USERS.items():
            for kind in kinds:
                one.grant(acl(user, Operation.ALL, kind, "*"))
                for name in (*ABSENT, *ABSENT.values()):
                    one.grant(acl(user, Operation.ALL, kind, name, deny=True))
        yield one


@pytest.mark.parametrize("key", [key for key in APIS if key not in _BOUND], ids=lambda key: APIS[key].name)
def test_what_is_hidden_is_answered_as_what_is_not_there(limited: Limited, key: int) -> None:
    api = APIS[key]
    for version in {api.served.first, api.served.last}:
        for kind in (0, 1) if key == 10 else (4, 2, 32) if key in (32, 33, 44) else (None,):
            request = request_of(key, version, limited.topic_id, kind)
            if key == 0:
                request.topic_data[0].partition_data[0].records = batch()
            hidden = encode(request, version)
            absent = hidden
            for name, other in ABSENT.items():
                absent = absent.replace(name.encode(), other.encode())
            if absent == hidden:
                continue  # no name is asked for
            named.add(key)
            for user in USERS:
                told = []
                for body in (hidden, absent):
                    with limited.user(user) as raw:
                        told.append(raw.ask(key, version, (b"\0" if api.is_flexible(version) else b"") + body))
                for name, other in ABSENT.items():
                    told[1] = None if told[1] is None else told[1].replace(other.encode(), name.encode())
                assert told[0] == told[1], (user, version, kind)


def test_most_apis_have_a_name_to_ask_for() -> None:
    assert len(named) > 35


def test_nothing_was_made_for_those_who_may_not(limited: Limited) -> None:
    seen = {topic.name for topic in limited.ask("root", 3, 9, MetadataRequest(topics=None)).topics}
    assert TOPIC in seen
    assert not seen & set(ABSENT.values())
