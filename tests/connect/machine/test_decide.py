"""Calls on a table of connectors: the records that they make, and what the table says then."""

import pytest

from ottla.connect.machine.connector_options import WorkerView
from ottla.connect.machine.decide import (
    ConnectDecision,
    count_tasks,
    create,
    delete,
    patch,
    put,
    restart,
    restart_task,
    set_target,
    set_tasks,
    task_configs,
)
from ottla.connect.machine.records import (
    ConnectorConfig,
    RestartWish,
    Target,
    TargetState,
    TaskConfig,
    TaskCount,
    TaskRestartWish,
    TasksCommit,
)
from ottla.connect.machine.refusals import CallRefused
from ottla.connect.machine.state import Configs
from ottla.connect.machine.validation import plugin_of, validated

WORKER = WorkerView()
LINES = {"connector.class": "FileStreamSource", "file": "/in", "topic": "lines"}
SINK = {"connector.class": "FileStreamSink", "file": "/out", "topics": "lines", "tasks.max": "2"}


def done(configs: Configs, decision: ConnectDecision) -> list:
    for record in decision.records:
        configs.apply(record)
    return list(decision.records)


def with_lines() -> Configs:
    configs = Configs()
    done(configs, create(configs, WORKER, "a", LINES))
    tasks = task_configs(plugin_of(LINES), {**LINES, "name": "a"})
    done(configs, set_tasks(configs, "a", {**LINES, "name": "a"}, tasks))
    return configs


def test_a_new_connector_is_one_record_with_its_name_in_the_configuration():
    configs = Configs()
    assert done(configs, create(configs, WORKER, "a", LINES)) == [ConnectorConfig("a", {**LINES, "name": "a"})]
    assert configs.get("a").target is Target.STARTED


def test_the_initial_state_is_written_before_the_connector():
    configs = Configs()
    records = done(configs, create(configs, WORKER, "a", LINES, Target.STOPPED))
    assert records == [TargetState("a", Target.STOPPED), ConnectorConfig("a", {**LINES, "name": "a"})]
    assert configs.get("a").target is Target.STOPPED


def test_a_set_of_tasks_counts_only_with_its_commit():
    configs = Configs()
    configs.apply(ConnectorConfig("a", {}))
    configs.apply(TaskConfig("a", 0, {"n": "0"}))
    assert configs.get("a").tasks == ()
    configs.apply(TasksCommit("a", 2))
    assert not configs.get("a").complete
    configs.apply(TaskConfig("a", 1, {"n": "1"}))
    configs.apply(TasksCommit("a", 2))
    assert configs.get("a").tasks == ({"n": "0"}, {"n": "1"})
    assert configs.get("a").complete


def test_tasks_that_compaction_put_before_their_connector_count():
    configs = Configs()
    configs.apply(TaskConfig("a", 0, {"n": "0"}))
    configs.apply(TasksCommit("a", 1))
    assert configs.names == []
    configs.apply(ConnectorConfig("a", {}))
    assert configs.get("a").tasks == ({"n": "0"},)


def test_a_sink_has_as_many_tasks_as_there_may_be_with_the_keys_that_kafka_adds():
    named = {**SINK, "name": "k"}
    made = task_configs(plugin_of(SINK), named)
    assert made == [{**named, "task.class": "org.apache.kafka.connect.file.FileStreamSinkTask"}] * 2


def test_stopping_empties_the_set_of_tasks_before_the_target_state():
    configs = with_lines()
    records = done(configs, set_target(configs, "a", Target.STOPPED))
    assert records == [TasksCommit("a", 0), TargetState("a", Target.STOPPED)]
    assert configs.get("a").tasks == ()


def test_a_target_that_is_so_already_writes_nothing():
    configs = with_lines()
    assert done(configs, set_target(configs, "a", Target.STARTED)) == []


def test_tasks_made_of_an_old_configuration_or_for_a_stopped_connector_are_not_written():
    configs = with_lines()
    assert set_tasks(configs, "a", LINES, [{}]).records == ()
    done(configs, set_target(configs, "a", Target.STOPPED))
    assert set_tasks(configs, "a", {**LINES, "name": "a"}, [{}]).records == ()


def test_a_deleted_connector_leaves_nothing_for_the_next_of_its_name():
    configs = with_lines()
    assert done(configs, delete(configs, "a")) == [ConnectorConfig("a", None), TargetState("a", None)]
    assert configs.names == []
    done(configs, create(configs, WORKER, "a", LINES))
    assert configs.get("a").tasks == ()


def test_a_patch_changes_and_removes_keys_and_no_name():
    configs = with_lines()
    done(configs, patch(configs, WORKER, "a", {"batch.size": "5", "topic": "other"}))
    done(configs, patch(configs, WORKER, "a", {"batch.size": None}))
    assert configs.get("a").config == {**LINES, "topic": "other", "name": "a"}
    with pytest.raises(CallRefused, match=r"\(b\) doesn't match connector name in the URL \(a\)"):
        patch(configs, WORKER, "a", {"name": "b"})


def test_restarts_are_wishes_that_change_no_state():
    configs = with_lines()
    done(configs, restart(configs, "a", include_tasks=True, only_failed=False))
    done(configs, restart_task(configs, "a", 0))
    assert configs.wishes == [RestartWish("a", True, False), TaskRestartWish("a", 0)]


@pytest.mark.parametrize(
    ("call", "status", "said"),
    [
        (lambda configs: create(configs, WORKER, "a", LINES), 409, "Connector a already exists"),
        (lambda configs: create(configs, WORKER, "", LINES), 400, "String may not be empty"),
        (lambda configs: put(configs, WORKER, "b", {"connector.class": "FileStreamSorce"}), 400, "FileStreamSource"),
        (lambda configs: put(configs, WORKER, "b", {}), 400, "contains no connector type"),
        (lambda configs: put(configs, WORKER, "b", {**LINES, "x": None}), 400, "Null value can not be supplied"),
        (lambda configs: delete(configs, "b"), 404, "Connector b not found"),
        (lambda configs: set_target(configs, "b", Target.PAUSED), 404, "Unknown connector b"),
        (lambda configs: restart(configs, "b", include_tasks=False, only_failed=False), 404, "Unknown connector: b"),
        (lambda configs: restart_task(configs, "a", 1), 404, "Unknown task: a-1"),
    ],
)
def test_refusals_have_kafkas_status_and_words(call, status, said):
    with pytest.raises(CallRefused) as refusal:
        call(with_lines())
    assert refusal.value.status == status
    assert said in refusal.value.message


def test_a_key_that_is_no_option_is_no_error_and_is_named():
    verdict = validated({**LINES, "name": "a", "bach.size": "3", "producer.override.acks": "1"}, WORKER)
    assert verdict.errors == []
    assert len(verdict.unknown) == 1
    assert "'bach.size'" in verdict.unknown[0]
    assert "batch.size" in verdict.unknown[0]


def test_the_options_of_a_converter_are_checked_where_it_is_named():
    converter = {"value.converter": "JsonConverter", "value.converter.schemas.enable": "perhaps"}
    verdict = validated({**LINES, "name": "a", **converter}, WORKER)
    assert [each.option.name for each in verdict.checked if each.errors] == ["value.converter.schemas.enable"]


def test_a_sink_may_not_read_its_own_dead_letters():
    letters = {"errors.deadletterqueue.topic.name": "lines"}
    assert "DLQ topic 'lines'" in validated({**SINK, "name": "a", **letters}, WORKER).errors[0]
    pattern = {"connector.class": "FileStreamSink", "name": "a", "topics.regex": "l.*", **letters}
    assert "may not be matched" in validated(pattern, WORKER).errors[0]


def with_tasks(configs: Configs, number: int) -> None:
    for each in range(number):
        configs.apply(TaskConfig("a", each, {}))
    configs.apply(TasksCommit("a", number))


def test_the_producers_of_the_last_set_of_tasks_are_fenced_before_the_next_one():
    configs = Configs()
    configs.apply(ConnectorConfig("a", {}))
    with_tasks(configs, 3)
    assert configs.unfenced("a") == 0, "nobody wrote before"
    assert done(configs, count_tasks(configs, "a", configs.round("a"))) == [TaskCount("a", 3)]
    assert configs.unfenced("a") is None
    with_tasks(configs, 1)
    assert configs.unfenced("a") == 3
    done(configs, delete(configs, "a"))
    configs.apply(ConnectorConfig("a", {}))
    with_tasks(configs, 2)
    assert configs.unfenced("a") == 3, "tasks of the deleted connector may still write"


def test_a_single_task_fences_the_single_one_before_it_by_itself():
    configs = Configs()
    configs.apply(ConnectorConfig("a", {}))
    with_tasks(configs, 1)
    done(configs, count_tasks(configs, "a", configs.round("a")))
    with_tasks(configs, 1)
    assert configs.unfenced("a") == 0


def test_a_round_that_was_overtaken_by_another_set_of_tasks_records_nothing():
    configs = Configs()
    configs.apply(ConnectorConfig("a", {}))
    with_tasks(configs, 1)
    overtaken = configs.round("a")
    with_tasks(configs, 2)
    assert done(configs, count_tasks(configs, "a", overtaken)) == []
    assert configs.unfenced("a") == 0
    done(configs, count_tasks(configs, "a", configs.round("a")))
    assert done(configs, count_tasks(configs, "a", configs.round("a"))) == [], "it is recorded already"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"file": ""}, "does not support exactly-once semantics with the provided configuration"),
        ({"connector.class": "JdbcSource", "mode": "timestamp"}, "does not implement the API required"),
        ({"transaction.boundary": "connector"}, "does not support connector-defined transaction boundaries"),
    ],
)
def test_a_connector_that_cannot_deliver_exactly_once_as_asked_is_refused_in_kafkas_words(more, said):
    config = {**LINES, "exactly.once.support": "required", **more}
    assert not any("exactly-once" in each for each in validated(LINES, WorkerView(exactly_once=True)).errors)
    assert any(said in each for each in validated(config, WorkerView(exactly_once=True)).errors)
