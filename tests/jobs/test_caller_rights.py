"""The rights of callers as a program follows them: who a caller is, whose ACLs count, and for how long."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from tests.access.limited import Limited
from tests.access.rights_requests import acl

from ottla.client.model import ClientSettings
from ottla.jobs.caller import HttpCaller
from ottla.jobs.caller_rights import CallerRights, RightsUnreadable, anybody, asks
from ottla.kernel.acls import CLUSTER_NAME, Operation, ResourceKind
from ottla.testing import TestBroker
from ottla.web.exchange import HttpError, Request

TOPIC, CLUSTER = ResourceKind.TOPIC, ResourceKind.CLUSTER
SUBJECT = ((("countryName", "DE"),), (("commonName", "alice"),))
SOON_S = 0.05


def request(user: str = "", *, subject: Any = (), client: str = "127.0.0.1") -> Request:
    return Request("GET", "/", user=user, subject=subject, client=client)


@pytest.fixture(scope="module")
def limited() -> Iterator[Limited]:
    one = Limited(["alice", "judge", "weak"])
    with one.broker:
        asked = (Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS)
        one.grant(*(acl("judge", each, CLUSTER, CLUSTER_NAME) for each in asked))
        yield one


def rights(limited: Limited, user: str, **more: Any) -> CallerRights:
    security = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": user,
                "sasl.password": user}  # fmt: skip
    host, port = limited.address
    return CallerRights(f"{host}:{port}", ClientSettings(security=security), fresh_s=SOON_S, **more)


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    while not await holds():
        await asyncio.sleep(0.02)


def test_callers_are_judged_by_the_acls_of_now_and_super_users_by_none(limited: Limited) -> None:
    async def story() -> None:
        async with rights(limited, "judge") as caller_of:

            async def may(user: str, topic: str = "t") -> bool:
                return (await caller_of(request(user))).may(Operation.READ, TOPIC, topic)

            assert await may("root")
            assert not await may("alice")
            limited.grant(acl("alice", Operation.READ, TOPIC, "t"))
            await until(lambda: may("alice"))
            assert not await may("alice", "other")
            limited.take("alice")

            async def is_refused() -> bool:
                return not await may("alice")

            await until(is_refused)

    asyncio.run(story())


def test_an_acl_for_an_address_counts_for_callers_from_there(limited: Limited) -> None:
    async def story() -> None:
        limited.grant(acl("alice", Operation.READ, TOPIC, "here", host="127.0.0.9"))
        async with rights(limited, "judge") as caller_of:
            for client, wanted in (("127.0.0.9", True), ("127.0.0.8", False)):
                caller = await caller_of(request("alice", client=client))
                assert caller.may(Operation.READ, TOPIC, "here") is wanted

    asyncio.run(story())


def test_a_certificate_names_its_owner_by_the_rules(limited: Limited) -> None:
    async def story() -> list[str]:
        found = []
        for rules, subject in (("", SUBJECT), ("RULE:^CN=(.*),C=DE$/$1/U", SUBJECT), ("", ())):
            async with rights(limited, "judge", mapping_rules=rules) as caller_of:
                found.append((await caller_of(request(subject=subject))).principal)
        async with rights(limited, "judge", mapping_rules="RULE:^OU=(.*)$/$1/") as caller_of:
            with pytest.raises(HttpError, match="no rule of"):
                await caller_of(request(subject=SUBJECT))
            found.append((await caller_of(request("bob", subject=SUBJECT))).principal)
        return found

    assert asyncio.run(story()) == ["User:CN=alice,C=DE", "User:ALICE", "User:ANONYMOUS", "User:bob"]
    with pytest.raises(ValueError, match="does not begin with DEFAULT or RULE"):
        CallerRights("localhost:1", mapping_rules="FIRST")


def test_a_program_that_may_not_read_the_acls_is_told_which_rights_it_lacks(limited: Limited) -> None:
    async def story() -> None:
        async with rights(limited, "weak"):
            pass

    with pytest.raises(RightsUnreadable, match="Grant that user describe and describe-configs on the cluster"):
        asyncio.run(story())


def test_without_an_authorizer_everything_is_allowed() -> None:
    async def story(bootstrap: str) -> HttpCaller:
        async with CallerRights(bootstrap) as caller_of:
            return await caller_of(request("alice"))

    with TestBroker() as broker:
        caller = asyncio.run(story(broker.bootstrap_servers))
    assert caller.may(Operation.ALTER, CLUSTER)
    assert caller.may_all(Operation.WRITE, TOPIC)


def test_rights_that_cannot_be_read_anew_count_for_a_while_and_then_nothing_is_allowed() -> None:
    one = Limited(["alice"])

    async def story() -> None:
        async with rights(one, "root") as patient, rights(one, "root", oldest_s=SOON_S) as strict:
            await asyncio.to_thread(one.broker.stop)
            assert (await patient(request("root"))).may(Operation.READ, TOPIC, "t")

            async def is_over() -> bool:
                try:
                    await strict(request("root"))
                except HttpError as refusal:
                    assert refusal.status == 503
                    return True
                return False

            await until(is_over)

    with one.broker:
        asyncio.run(story())


def test_a_broker_that_lost_its_authorizer_opens_nothing_that_was_closed() -> None:
    one = Limited(["alice"])

    async def story() -> str:
        async with rights(one, "root", oldest_s=SOON_S) as caller_of:
            address = "{}:{}".format(*one.address)
            await asyncio.to_thread(one.broker.stop)
            plain = "org.apache.kafka.common.security.plain.PlainLoginModule required "
            without = {
                "listeners": f"SASL_PLAINTEXT://{address}",
                "sasl.enabled.mechanisms": "PLAIN",
                "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{plain} user_root="root";',
            }
            with TestBroker(without):
                while True:
                    try:
                        assert not (await caller_of(request("alice"))).may(Operation.READ, TOPIC, "t")
                    except HttpError as refusal:
                        if "SECURITY_DISABLED" in refusal.message:
                            return refusal.message
                    await asyncio.sleep(0.02)

    with one.broker:
        assert asyncio.run(story()).startswith("HTTP 503")


def test_callers_are_known_by_passwords_tokens_or_certificates() -> None:
    assert not asks({}, None, None)
    assert not asks({"ssl.client.auth": "none"}, "", None)
    assert asks({}, "users", None)
    assert asks({}, None, "tokens")
    assert asks({"ssl.client.auth": "requested"}, None, None)
    assert asyncio.run(anybody(request())).may(Operation.ALTER, CLUSTER)
