"""Edits of options: set, delete, append, subtract, replace."""

from __future__ import annotations

from clusters import a_cluster, create, topic_id

from ottla.cluster.commands import ConfigEdit, ConfigOperation, CreateTopic, DeleteTopic, EditConfigs
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicId
from ottla.metadata.entries import ENTRY_LIMIT, ConfigsSet
from ottla.metadata.state import ALL_BROKERS, BROKER_RESOURCE, TOPIC_RESOURCE

SET, DELETE = ConfigOperation.SET, ConfigOperation.DELETE
APPEND, SUBTRACT = ConfigOperation.APPEND, ConfigOperation.SUBTRACT


def edit(*edits: ConfigEdit, name: str = "orders", replace: bool = False) -> EditConfigs:
    return EditConfigs(TOPIC_RESOURCE, name, edits, replace=replace)


def test_options_are_set_and_taken_away():
    decisions = a_cluster(1)
    decisions.do(create("orders", retention_ms="5"))
    decisions.do(edit(ConfigEdit("segment.ms", SET, "9"), ConfigEdit("retention.ms", DELETE)))
    assert decisions.state.topic("orders").configs == {"segment.ms": "9"}


def test_an_edit_that_changes_nothing_writes_nothing():
    decisions = a_cluster(1)
    decisions.do(create("orders", retention_ms="5"))
    assert decisions.ask(edit(ConfigEdit("retention.ms", SET, "5"), ConfigEdit("segment.ms", DELETE))) == []


def test_a_list_is_appended_to_and_subtracted_from():
    decisions = a_cluster(1)
    decisions.do(create("orders"))
    decisions.do(edit(ConfigEdit("cleanup.policy", APPEND, "compact", inherited="delete")))
    assert decisions.state.topic("orders").configs == {"cleanup.policy": "delete,compact"}
    decisions.do(edit(ConfigEdit("cleanup.policy", APPEND, "compact", inherited="delete")))
    assert decisions.state.topic("orders").configs == {"cleanup.policy": "delete,compact"}
    decisions.do(edit(ConfigEdit("cleanup.policy", SUBTRACT, "delete", inherited="delete")))
    assert decisions.state.topic("orders").configs == {"cleanup.policy": "compact"}


def test_replacing_takes_away_what_is_not_given():
    decisions = a_cluster(1)
    decisions.do(create("orders", retention_ms="5", segment_ms="9"))
    (entry,) = decisions.do(edit(ConfigEdit("retention.ms", SET, "6"), replace=True))
    assert isinstance(entry, ConfigsSet)
    assert decisions.state.topic("orders").configs == {"retention.ms": "6"}


def test_a_topic_that_is_not_there_has_no_options():
    refused = a_cluster(1).refused(edit(ConfigEdit("retention.ms", SET, "5")))
    assert refused.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_options_of_all_brokers_and_of_one_are_kept_apart():
    decisions = a_cluster(1)
    for name, value in ((ALL_BROKERS, "5"), ("1", "6")):
        decisions.do(EditConfigs(BROKER_RESOURCE, name, (ConfigEdit("log.retention.ms", SET, value),)))
    assert decisions.state.config(BROKER_RESOURCE, ALL_BROKERS) == {"log.retention.ms": "5"}
    assert decisions.state.config(BROKER_RESOURCE, "1") == {"log.retention.ms": "6"}
    decisions.do(EditConfigs(BROKER_RESOURCE, "1", (ConfigEdit("log.retention.ms", DELETE),)))
    assert decisions.state.config(BROKER_RESOURCE, "1") == {}


def test_the_options_of_a_deleted_topic_are_not_those_of_the_next():

    decisions = a_cluster(1)
    decisions.do(create("orders", retention_ms="5"))
    decisions.do(DeleteTopic("orders", topic_id("orders")))
    decisions.do(CreateTopic("orders", TopicId(b"a later id......"), 1, 1))
    assert decisions.state.topic("orders").configs == {}


def test_options_too_large_for_one_entry_are_refused():
    decisions = a_cluster(1)
    decisions.do(create("orders"))
    for much in ("x" * ENTRY_LIMIT, "\N{OLD PERSIAN SIGN A}" * (ENTRY_LIMIT // 3)):
        refused = decisions.refused(edit(ConfigEdit("leader.replication.throttled.replicas", SET, much)))
        assert refused.code == ErrorCode.INVALID_CONFIG
