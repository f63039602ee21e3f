"""Internal topics and those of a registry are neither deleted nor emptied by an ordinary request."""

from __future__ import annotations

import pytest
from clusters import Decisions, a_cluster, create, topic_id

from ottla.cluster.commands import ConfigEdit, ConfigOperation, DeleteTopic, EditConfigs
from ottla.kernel.errors import ErrorCode
from ottla.metadata.state import TOPIC_RESOURCE

SET, DELETE, APPEND = ConfigOperation.SET, ConfigOperation.DELETE, ConfigOperation.APPEND
GUARDED = ["__consumer_offsets", "__transaction_state", "_schemas", "_schemas_ids"]


def edit(name: str, *edits: ConfigEdit, replace: bool = False) -> EditConfigs:
    return EditConfigs(TOPIC_RESOURCE, name, edits, replace=replace)


def with_topic(name: str, **configs: str) -> Decisions:
    decisions = a_cluster(1)
    decisions.do(create(name, **{"cleanup_policy": "compact", **configs}))
    return decisions


def delete(name: str) -> DeleteTopic:
    return DeleteTopic(name, topic_id(name))


@pytest.mark.parametrize("name", GUARDED)
def test_a_protected_topic_is_not_deleted_and_the_error_names_the_way(name):
    decisions = with_topic(name)
    refused = decisions.refused(delete(name))
    assert refused.code == ErrorCode.POLICY_VIOLATION
    assert f"ottla topic delete --internal {name}" in refused.message
    assert "deletion.protection=false" in refused.message
    decisions.do(edit(name, ConfigEdit("deletion.protection", SET, "false")))
    decisions.do(delete(name))
    assert decisions.state.topic(name) is None


@pytest.mark.parametrize("name", GUARDED)
@pytest.mark.parametrize(
    "change",
    [
        (ConfigEdit("cleanup.policy", SET, "delete"),),
        (ConfigEdit("cleanup.policy", SET, "compact,delete"),),
        (ConfigEdit("cleanup.policy", APPEND, "delete", inherited="compact"),),
        (ConfigEdit("cleanup.policy", DELETE),),
        (ConfigEdit("deletion.protection", SET, "true"), ConfigEdit("cleanup.policy", SET, "delete")),
    ],
)
def test_no_option_makes_retention_empty_a_protected_topic(name, change):
    decisions = with_topic(name)
    refused = decisions.refused(edit(name, *change))
    assert (refused.code, "cleanup.policy=compact" in refused.message) == (ErrorCode.POLICY_VIOLATION, True)


def test_options_that_replace_all_others_must_keep_a_protected_topic_compacted():
    decisions = with_topic("__consumer_offsets")
    replacing = edit("__consumer_offsets", ConfigEdit("segment.bytes", SET, "2000000"), replace=True)
    assert decisions.refused(replacing).code == ErrorCode.POLICY_VIOLATION
    kept = (ConfigEdit("segment.bytes", SET, "2000000"), ConfigEdit("cleanup.policy", SET, "compact"))
    decisions.do(edit("__consumer_offsets", *kept, replace=True))


def test_an_administrator_may_release_a_topic_and_change_its_policy_at_once():
    decisions = with_topic("__consumer_offsets")
    released = (ConfigEdit("deletion.protection", SET, "false"), ConfigEdit("cleanup.policy", SET, "delete"))
    decisions.do(edit("__consumer_offsets", *released))
    assert decisions.state.topic("__consumer_offsets").configs["cleanup.policy"] == "delete"


def test_a_policy_from_before_does_not_keep_other_options_from_being_set():
    decisions = with_topic("__consumer_offsets", cleanup_policy="compact,delete", deletion_protection="false")
    decisions.do(edit("__consumer_offsets", ConfigEdit("deletion.protection", DELETE)))
    decisions.do(edit("__consumer_offsets", ConfigEdit("segment.bytes", SET, "2000000")))


def test_an_internal_topic_is_not_created_with_retention():
    decisions = a_cluster(1)
    assert decisions.refused(create("__consumer_offsets")).code == ErrorCode.POLICY_VIOLATION
    refused = decisions.refused(create("__transaction_state", cleanup_policy="delete"))
    assert refused.code == ErrorCode.POLICY_VIOLATION


def test_any_topic_can_be_protected_by_its_owner():
    decisions = a_cluster(1)
    decisions.do(create("orders", deletion_protection="true"))
    assert "records that are to be kept" in decisions.refused(delete("orders")).message
    decisions.do(edit("orders", ConfigEdit("retention.ms", SET, "5")))
    decisions.do(edit("orders", ConfigEdit("deletion.protection", DELETE)))
    decisions.do(delete("orders"))


def test_ordinary_topics_of_like_names_are_deleted_as_before():
    decisions = a_cluster(1)
    for name in ("_schemas", "__my_topic", "app-store-changelog", "connect-offsets"):
        policy = "delete" if name == "_schemas" else "compact"
        decisions.do(create(name, cleanup_policy=policy))
        decisions.do(edit(name, ConfigEdit("cleanup.policy", SET, "delete")))
        decisions.do(delete(name))
