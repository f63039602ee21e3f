"""ACLs that a pipeline's file declares, and those that a cluster has afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.client import Admin
from ottla.kernel.acls import Acl, Operation, PatternType, Permission, ResourceKind
from ottla.pipeline.apply import Memory, carried_out, planned
from ottla.pipeline.parts import Pipeline, PipelinePart
from ottla.pipeline.rights import acls_of
from ottla.testing import TestBroker

AUTHORIZER = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
              "super.users": "User:ANONYMOUS"}  # fmt: skip


def part(**values: str) -> PipelinePart:
    return PipelinePart("acls", "rule", {"user": "till", "may": "read", **values})


def test_a_rule_is_an_acl_for_each_name_and_operation_and_a_star_ends_a_prefix() -> None:
    on_topic = (ResourceKind.TOPIC, "sales", PatternType.LITERAL, "User:till", "*")
    on_prefix = (ResourceKind.TOPIC, "old-", PatternType.PREFIXED, "User:till", "*")
    assert acls_of(part(may="read, describe-configs", topics="sales,old-*")) == [
        Acl(*place, operation, Permission.ALLOW)
        for place in (on_topic, on_prefix)
        for operation in (Operation.READ, Operation.DESCRIBE_CONFIGS)
    ]
    [everything] = acls_of(part(user="User:till", groups="*", host="10.0.0.1"))
    assert everything[1:5] == ("*", PatternType.LITERAL, "User:till", "10.0.0.1")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "names one of topics, groups, transactional_ids"),
        ({"topics": "a", "groups": "b"}, "names one of"),
        ({"topics": "a", "may": "raed"}, "no operation raed on a topic (did you mean read?)"),
        ({"groups": "a", "may": "write"}, "no operation write on a group"),
    ],
)
def test_a_rule_that_cannot_be_is_refused(values: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said.replace("?", r"\?").replace("(", r"\(").replace(")", r"\)")):
        acls_of(part(**values))


def test_missing_acls_are_made_and_those_of_an_earlier_run_go_where_that_is_asked_for(tmp_path: Path) -> None:
    memory = Memory(tmp_path)

    def run(admin: Admin, *parts: PipelinePart, prune: bool = False) -> list[str]:
        found = planned(Pipeline("p", tmp_path, {}, list(parts)), admin, None, None, memory, prune=prune)
        carried_out(found.changes, admin, None, None, memory, lambda _: None)
        return [f"{each.verb} {each.name}" for each in found.changes] + [f"left {each.name}" for each in found.left]

    foreign = Acl(ResourceKind.TOPIC, "x", PatternType.LITERAL, "User:eve", "*", Operation.READ, Permission.ALLOW)
    rule = "ALLOW User:till from *: READ on topic sales"
    with TestBroker(AUTHORIZER) as broker, Admin(broker.bootstrap_servers) as admin:
        admin.create_acls([foreign])
        assert run(admin, part(topics="sales")) == [f"create {rule}"]
        assert run(admin, part(topics="sales")) == []
        assert run(admin) == [f"left {rule}"]
        assert run(admin, prune=True) == [f"delete {rule}"]
        assert admin.describe_acls() == [foreign]


def test_a_cluster_that_knows_no_acls_is_refused(tmp_path: Path) -> None:
    with TestBroker() as broker, Admin(broker.bootstrap_servers) as admin:
        pipeline = Pipeline("p", tmp_path, {}, [part(topics="sales")])
        [said] = planned(pipeline, admin, None, None, Memory(tmp_path), prune=False).refusals
        assert "authorizer.class.name" in said
