"""Records of Connect's topics, byte for byte as Kafka's workers write them."""

import pytest

from ottla.connect.machine.records import (
    ConnectorConfig,
    ConnectorStatus,
    Foreign,
    LoggerLevel,
    RestartWish,
    Status,
    Target,
    TargetState,
    TaskConfig,
    TaskCount,
    TaskRestartWish,
    TasksCommit,
    TaskStatus,
    TopicInUse,
    UnreadableConnectRecord,
    configs_pair,
    read_configs,
    read_status,
    status_pair,
)

CONFIGS = [
    (ConnectorConfig("a-b", {"file": "/ü", "name": "a-b"}), b"connector-a-b",
     '{"properties":{"file":"/ü","name":"a-b"}}'.encode()),
    (ConnectorConfig("a", None), b"connector-a", None),
    (TaskConfig("a-1", 0, {"x": "1"}), b"task-a-1-0", b'{"properties":{"x":"1"}}'),
    (TasksCommit("a", 3), b"commit-a", b'{"tasks":3}'),
    (TaskCount("a", 3), b"tasks-fencing-a", b'{"task-count":3}'),
    (TargetState("a", Target.STARTED), b"target-state-a", b'{"state":"STARTED","state.v2":"STARTED"}'),
    (TargetState("a", Target.STOPPED), b"target-state-a", b'{"state":"PAUSED","state.v2":"STOPPED"}'),
    (TargetState("a", None), b"target-state-a", None),
    (RestartWish("a", True, False), b"restart-connector-a", b'{"include-tasks":true,"only-failed":false}'),
    (TaskRestartWish("a", 2), b"ottla-restart-task-a-2", b"{}"),
    (LoggerLevel("org.x", "INFO"), b"logger-cluster-org.x", b'{"level":"INFO"}'),
]  # fmt: skip
STATUSES = [
    (ConnectorStatus("a", Status("RUNNING", "w:1", 2, None, "4.3.1")), b"status-connector-a",
     b'{"state":"RUNNING","trace":null,"worker_id":"w:1","generation":2,"version":"4.3.1"}'),
    (ConnectorStatus("a", None), b"status-connector-a", None),
    (TaskStatus("a-b", 10, Status("FAILED", "w:1", 2, "why", None)), b"status-task-a-b-10",
     b'{"state":"FAILED","trace":"why","worker_id":"w:1","generation":2,"version":null}'),
    (TaskStatus("a", 0, Status("RUNNING", "w:1", 2, None, "1", "snapshot")), b"status-task-a-0",
     b'{"state":"RUNNING","trace":null,"worker_id":"w:1","generation":2,"version":"1","phase":"snapshot"}'),
    (TopicInUse("a:b", "t", 0, 7), b"status-topic-t:connector-a:b",
     b'{"topic":{"name":"t","connector":"a:b","task":0,"discoverTimestamp":7}}'),
    (TopicInUse("a", "t", discovered_ms=None), b"status-topic-t:connector-a", None),
]  # fmt: skip


@pytest.mark.parametrize(("record", "key", "value"), CONFIGS)
def test_a_record_of_the_configs_topic_has_kafkas_bytes_and_is_read_back(record, key, value):
    assert configs_pair(record) == (key, value)
    assert read_configs(key, value) == record


@pytest.mark.parametrize(("record", "key", "value"), STATUSES)
def test_a_record_of_the_status_topic_has_kafkas_bytes_and_is_read_back(record, key, value):
    assert status_pair(record) == (key, value)
    assert read_status(key, value) == record


def test_what_kafkas_workers_tell_each_other_is_known_and_left_alone():
    for key in ("session-key", "ottla-nothing"):
        assert read_configs(key.encode(), b"{}") == Foreign(key)


def test_the_target_state_of_a_worker_older_than_stopped_is_read():
    assert read_configs(b"target-state-a", b'{"state":"PAUSED"}') == TargetState("a", Target.PAUSED)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        (b"nonsense", b"{}", "none of Connect's"), (b"\xff", b"{}", "UTF-8"), (b"connector-a", b"{", "no JSON"),
        (b"connector-a", b"[]", "no JSON object"), (b"connector-a", b"{}", "no properties"),
        (b"commit-a", b'{"tasks":"x"}', "'x'"), (b"target-state-a", b'{"state":"LOST"}', "LOST"),
    ],
)  # fmt: skip
def test_a_record_that_cannot_be_read_is_named(key, value, said):
    with pytest.raises(UnreadableConnectRecord, match=said):
        read_configs(key, value)
