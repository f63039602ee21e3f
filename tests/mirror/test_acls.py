"""ACLs of mirrored topics: which rules go to the target, and that they get there."""

from __future__ import annotations

import asyncio
import time

from tests.mirror.sites import mirroring, properties

from ottla.client.admin.acls import create_acls, describe_acls
from ottla.client.aio.cluster import Cluster
from ottla.kernel.acls import Acl, Operation, PatternType, Permission, ResourceKind
from ottla.mirror.acls import mirrored
from ottla.mirror.options import mirrors_of
from ottla.testing import TestBroker

RULES = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
FILE = {"clusters": "us, eu", "us.bootstrap.servers": "a:1", "eu.bootstrap.servers": "b:1", "us->eu.enabled": "true"}


def rule(
    name: str,
    operation: Operation = Operation.READ,
    *,
    permission: Permission = Permission.ALLOW,
    pattern: PatternType = PatternType.LITERAL,
    user: str = "User:ann",
) -> Acl:
    return Acl(ResourceKind.TOPIC, name, pattern, user, "*", operation, permission)


def at_the_target(*acls: Acl, **options: str) -> list[Acl]:
    (flow,) = mirrors_of(FILE | {name.replace("_", "."): value for name, value in options.items()}).flows
    return mirrored(flow, acls)


def test_readers_may_read_the_mirror_and_nobody_may_write_there() -> None:
    assert at_the_target(rule("visits")) == [rule("us.visits")]
    assert at_the_target(rule("visits", Operation.WRITE)) == []
    assert at_the_target(rule("visits", Operation.ALL)) == [rule("us.visits")]
    assert at_the_target(rule("visits", Operation.ALL), rule("visits")) == [rule("us.visits")]


def test_what_is_denied_at_the_source_is_denied_at_the_target() -> None:
    for operation in (Operation.WRITE, Operation.ALL, Operation.READ):
        denied = rule("visits", operation, permission=Permission.DENY)
        assert at_the_target(denied) == [denied._replace(name="us.visits")]


def test_rules_for_other_topics_than_mirrors_stay_behind() -> None:
    assert at_the_target(rule("__consumer_offsets"), rule("eu.visits"), rule("old"), topics_exclude="old") == []
    policy = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
    assert at_the_target(rule("*"), rule("vis", pattern=PatternType.PREFIXED), replication_policy_class=policy) == []


def test_a_mirror_makes_the_rules_of_its_topics_and_leaves_those_that_are_there() -> None:
    own = rule("us.visits", user="User:eve")

    async def acls_of(broker: TestBroker, *add: Acl) -> set[Acl]:
        async with Cluster(broker.bootstrap_servers) as cluster:
            await cluster.run(create_acls(cluster.plan, add))
            return set(await cluster.run(describe_acls(cluster.plan)))

    def wait_for(broker: TestBroker, wanted: set[Acl]) -> None:
        until = time.monotonic() + 60
        while (found := asyncio.run(acls_of(broker))) != wanted and time.monotonic() < until:
            time.sleep(0.05)
        assert found == wanted

    with TestBroker(RULES) as us, TestBroker(RULES) as eu:
        asyncio.run(acls_of(us, rule("visits"), rule("visits", Operation.WRITE)))
        asyncio.run(acls_of(eu, own))
        with mirroring(properties(us, eu, sync_topic_acls_interval_seconds="1")):
            wait_for(eu, {own, rule("us.visits")})
            asyncio.run(acls_of(us, rule("visits", user="User:bob")))
            wait_for(eu, {own, rule("us.visits"), rule("us.visits", user="User:bob")})
