"""The parts of a task that need no broker: offsets, variables, retries, options, the faults that may pass."""

import asyncio
import json

import pytest

from ottla.client.admin.admin import NewTopic
from ottla.connect.errors import ConfigException, RetriableException
from ottla.connect.java.byte_map import read_map, written_map
from ottla.connect.machine.connector_options import WorkerView
from ottla.connect.machine.validation import validated
from ottla.connect.plugins.file_stream import FileStreamSourceConnector
from ottla.connect.standalone import Standalone, plans_of, read_connector, read_worker
from ottla.connect.tasks.clients import consumer_of, producer_of
from ottla.connect.tasks.offset_file import OffsetFile
from ottla.connect.tasks.offsets import SourceOffsets, key_of
from ottla.connect.tasks.plan import TaskPlan
from ottla.connect.tasks.refusals import ErrorRetries
from ottla.connect.tasks.secrets import Secrets
from ottla.connect.tasks.topic_creation import groups_of, topic_for

WORKER = {
    "bootstrap.servers": "localhost:9",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
}
SOURCE = {"name": "s", "connector.class": "FileStreamSource", "topic": "t"}


def test_an_offset_has_the_key_that_java_writes():
    assert key_of("lines-in", {"filename": "/ü/in.txt"}) == '["lines-in",{"filename":"/ü/in.txt"}]'.encode()


def test_a_known_key_keeps_its_bytes_whichever_order_its_fields_have():
    offsets = SourceOffsets()
    offsets.apply(b'["c", {"b":1,"a":2}]', b'{"n":1}')
    assert offsets.record("c", {"a": 2, "b": 1}, {"n": 2}) == (b'["c", {"b":1,"a":2}]', b'{"n":2}')
    assert offsets.read("c", {"a": 2, "b": 1}) == {"n": 1}
    offsets.apply(b'["c", {"b":1,"a":2}]', None)
    assert offsets.all("c") == []


def test_the_offset_file_is_read_again_and_forgets_an_offset_that_is_removed(tmp_path):
    path = str(tmp_path / "offsets")
    store = OffsetFile(path)
    asyncio.run(store.write("c", [({"p": 1}, {"n": 1}), ({"p": 2}, {"n": 2})]))
    asyncio.run(store.write("c", [({"p": 1}, None)]))
    assert asyncio.run(OffsetFile(path).all("c")) == [({"p": 2}, {"n": 2})]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [(b"\xac\xed\x00\x05sr", r"no offsets of Kafka's own worker: it is not a java\.util\.HashMap"),
     (b"{}x", "holds no offsets: "),
     (written_map([(b"[1]", b"{}")]), r"the key b'\[1\]' is not \[NAME, \{partition\}\]")],
)  # fmt: skip
def test_a_file_that_holds_something_else_is_refused(tmp_path, content, sentence):
    path = tmp_path / "offsets"
    path.write_bytes(content)
    with pytest.raises(ConfigException, match=sentence):
        OffsetFile(str(path))
    assert path.read_bytes() == content


def test_the_offsets_of_a_java_worker_are_gone_on_with_in_their_own_file(tmp_path, caplog):
    path = tmp_path / "connect.offsets"
    path.write_bytes(written_map([(b'["lines",{"filename":"a"}]', b'{"position":5}')]))
    store = OffsetFile(str(path))
    assert "holds 1 offsets of Kafka's own worker" in caplog.text
    assert asyncio.run(store.read("lines", [{"filename": "a"}])) == [{"position": 5}]
    asyncio.run(store.write("lines", [({"filename": "b"}, {"position": 7})]))
    assert read_map(path.read_bytes()) == [
        (b'["lines",{"filename":"a"}]', b'{"position":5}'), (b'["lines",{"filename":"b"}]', b'{"position":7}'),
    ]  # fmt: skip


def test_variables_are_resolved_by_the_providers_that_the_worker_names(tmp_path, monkeypatch):
    monkeypatch.setenv("OTTLA_TEST_USER", "anna")
    (tmp_path / "pass.properties").write_text("db=s3cret\n")
    (tmp_path / "token").write_text("abc")
    package = "org.apache.kafka.common.config.provider."
    worker = {
        "config.providers": "env,file,directory",
        "config.providers.env.class": package + "EnvVarConfigProvider",
        "config.providers.file.class": package + "FileConfigProvider",
        "config.providers.file.param.allowed.paths": str(tmp_path),
        "config.providers.directory.class": package + "DirectoryConfigProvider",
    }
    given = {
        "a": "${env:OTTLA_TEST_USER}/${file:" + str(tmp_path) + "/pass.properties:db}",
        "b": "${directory:" + str(tmp_path) + ":token}",
        "c": "${vault:x}",
    }
    secrets = Secrets(worker)
    assert secrets.config(given) == {"a": "anna/s3cret", "b": "abc", "c": "${vault:x}"}
    with pytest.raises(ConfigException, match="no variable OTTLA_TEST_USR"):
        secrets.text("${env:OTTLA_TEST_USR}")
    with pytest.raises(ConfigException, match=r"not below one of allowed\.paths"):
        secrets.text("${file:/etc/passwd:root}")
    shown = "no user anna with s3cret on a table of abc"
    assert secrets.hidden(shown, {"a": given["a"]}) == (
        "no user ${env:OTTLA_TEST_USER} with ${file:" + str(tmp_path) + "/pass.properties:db} on a table of abc"
    )


def test_a_worker_alone_refuses_to_deliver_exactly_once(tmp_path):
    path = tmp_path / "worker.properties"
    path.write_text("bootstrap.servers=b:1\noffset.storage.file.filename=/tmp/o\nexactly.once.source.support=enabled\n")
    with pytest.raises(ConfigException, match="does not support exactly-once source connectors"):
        read_worker(str(path))


def test_a_plugin_is_asked_for_by_its_own_version():
    config = {"name": "j", "connector.class": "JdbcSource", "connection.url": "jdbc:sqlite:x", "topic.prefix": "x",
              "mode": "bulk"}  # fmt: skip
    assert not validated({**config, "connector.plugin.version": "10.8.0"}, WorkerView()).errors
    assert validated({**config, "connector.plugin.version": "4.3.1"}, WorkerView()).errors == [
        "Invalid value 4.3.1 for configuration connector.plugin.version: String must be one of: 10.8.0"
    ]


def test_a_validation_sees_the_values_of_variables_and_shows_the_variables(monkeypatch):
    monkeypatch.setenv("OTTLA_TEST_BATCH", "77")
    monkeypatch.setenv("OTTLA_TEST_BAD", "s3cret")
    secrets = Secrets({"config.providers": "env", "config.providers.env.class": "EnvVarConfigProvider"})
    config = {"name": "f", "connector.class": "FileStreamSource", "topic": "${env:OTTLA_TEST_BAD}"}

    def answer(batch):
        verdict = validated({**config, "batch.size": batch}, WorkerView(resolve=secrets.text))
        assert "s3cret" not in str([each.answer() for each in verdict.checked])
        found = next(each for each in verdict.checked if each.option.name == "batch.size").answer()["value"]
        return found["value"], found["errors"]

    assert answer("${env:OTTLA_TEST_BATCH}") == ("${env:OTTLA_TEST_BATCH}", [])
    shown, errors = answer("${env:OTTLA_TEST_BAD}")
    assert shown == "${env:OTTLA_TEST_BAD}"
    assert "not one that the option takes" in errors[0]
    _, errors = answer("${env:OTTLA_TEST_BADD}")
    assert "no variable OTTLA_TEST_BADD (did you mean OTTLA_TEST_BAD?)" in errors[0]


def test_waits_double_up_to_the_longest_and_end_with_the_timeout():
    assert list(ErrorRetries(2_000, 1_000).waits_ms()) == [300, 600, 1_000, 100]
    assert list(ErrorRetries(0, 1_000).waits_ms()) == []
    endless = ErrorRetries(-1, 700).waits_ms()
    assert [next(endless) for _ in range(4)] == [300, 600, 700, 700]


def test_overrides_of_a_connector_beat_the_worker_and_nothing_commits_by_time():
    worker = {**WORKER, "consumer.max.poll.records": "7", "producer.linger.ms": "1"}
    consumer, client = consumer_of(worker, {"consumer.override.max.poll.records": "9"}, "id", "connect-c")
    assert (consumer.max_poll_records, consumer.group_id, consumer.enable_auto_commit) == (9, "connect-c", False)
    assert client.client_id == "id"
    producer, _ = producer_of(worker, {"producer.override.linger.ms": "3"}, "id")
    assert (producer.linger_ms, producer.acks) == (3, -1)
    with pytest.raises(ConfigException, match="committed after a flush"):
        consumer_of(worker, {"consumer.override.enable.auto.commit": "true"}, "id", "g")


def test_an_override_without_effect_is_named_with_the_nearest(caplog):
    producer_of(WORKER, {"producer.override.linger.mss": "3"}, "id")
    assert "the option linger.mss of the producer has no effect here (did you mean linger.ms?)" in caplog.text


def test_a_misspelt_option_of_a_connector_is_named_with_the_nearest(caplog):
    plans_of(WORKER, {**SOURCE, "batch.sise": "1"})
    assert "Unknown configuration 'batch.sise' (did you mean batch.size?)" in caplog.text


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"connector.class": "FileStreamSorce"}, "did you mean FileStreamSource"),
        ({"connector.class": "FileStreamSink"}, "Must configure one of topics or topics.regex"),
        ({"connector.class": "FileStreamSink", "topics": "a", "topics.regex": "b"}, "mutually exclusive"),
        (
            {"connector.class": "FileStreamSink", "topics.regex": "a.*", "errors.deadletterqueue.topic.name": "a-dead"},
            "may not be matched by the regex",
        ),
        ({"exactly.once.support": "required"}, "does not have exactly-once source support"),
        ({"batch.size": "0"}, "Value must be at least 1"),
        ({"value.converter": "JsonConvertr"}, "did you mean JsonConverter"),
        ({"errors.tolerance": "some"}, "one of: none, all"),
        ({"errors.retry.timeout": "-2"}, "Value must be at least -1"),
        ({"errors.retry.delay.max.ms": "0"}, "Value must be at least 1"),
        ({"errors.deadletterqueue.topic.replication.factor": "x"}, "errors.deadletterqueue.topic.replication.factor"),
        ({"connector.class": "FileStreamSink", "topics": "a,,b"}, "a topic has no name"),
    ],
)
def test_a_configuration_that_cannot_run_is_refused_before_the_first_record(change, sentence):
    with pytest.raises(ConfigException, match=sentence):
        plans_of(WORKER, {**SOURCE, **change})


def test_two_connectors_of_one_name_are_refused(tmp_path):
    with pytest.raises(ConfigException, match="two connectors have the name 's'"):
        Standalone({**WORKER, "offset.storage.file.filename": str(tmp_path / "o")}, [SOURCE, SOURCE])


def test_faults_that_may_pass_are_told_from_those_of_the_configuration():
    plan = TaskPlan("s", 0, FileStreamSourceConnector, SOURCE, SOURCE, WORKER)
    assert plan.fault_of(RetriableException("away")).may_pass
    assert plan.fault_of(ConnectionResetError("reset")).may_pass
    assert not plan.fault_of(ConfigException("no topic")).may_pass
    assert not plan.fault_of(FileNotFoundError("no folder")).may_pass


def test_a_worker_file_without_brokers_is_refused_and_a_strange_key_is_named(tmp_path, caplog):
    path = tmp_path / "worker.properties"
    path.write_text("offset.storage.file.filename=/tmp/o\nplugin.path=/p\nvalue.convertr=x\n")
    with pytest.raises(ConfigException, match=r"bootstrap\.servers"):
        read_worker(str(path))
    assert "the option plugin.path has no effect here" in caplog.text
    assert "there is no option value.convertr (did you mean value.converter?)" in caplog.text


def test_a_worker_may_leave_the_making_of_topics_to_the_broker(tmp_path):
    path = tmp_path / "worker.properties"
    path.write_text("bootstrap.servers=b:1\noffset.storage.file.filename=/tmp/o\ntopic.creation.enable=false\n")
    assert read_worker(str(path))["topic.creation.enable"] == "false"
    path.write_text("bootstrap.servers=b:1\noffset.storage.file.filename=/tmp/o\ntopic.creation.enable=1\n")
    with pytest.raises(ConfigException, match=r"topic\.creation\.enable: it is true or false"):
        read_worker(str(path))


@pytest.mark.parametrize(
    "text",
    [
        "name=c\nfile=/in\\\n  put\n",
        json.dumps({"name": "c", "file": "/input"}),
        json.dumps({"name": "c", "config": {"file": "/input"}}),
    ],
)
def test_a_connector_stands_in_properties_or_in_json_of_either_form(tmp_path, text):
    path = tmp_path / "connector"
    path.write_text(text)
    assert read_connector(str(path)) == {"name": "c", "file": "/input"}


def test_a_sink_has_as_many_tasks_as_allowed_and_they_keep_its_variables_unresolved(monkeypatch):
    monkeypatch.setenv("OTTLA_TEST_FILE", "/tmp/out")
    worker = {
        **WORKER,
        "config.providers": "env",
        "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
    }
    config = {"name": "k", "connector.class": "FileStreamSink", "topics": "t", "tasks.max": "2"}
    config["file"] = "${env:OTTLA_TEST_FILE}"
    assert [plan.task_config["file"] for plan in plans_of(worker, config)] == ["${env:OTTLA_TEST_FILE}"] * 2


def test_an_option_that_a_converter_does_not_have_is_named_and_does_no_harm(caplog):
    assert plans_of(WORKER, {**SOURCE, "value.converter": "StringConverter", "value.converter.schemas.enable": "false"})
    assert "StringConverter: Unknown configuration 'schemas.enable'" in caplog.text


TOPICS = {
    "topic.creation.groups": "wide",
    "topic.creation.wide.include": "w.*,x",
    "topic.creation.wide.exclude": "w0",
    "topic.creation.wide.partitions": "9",
    "topic.creation.wide.cleanup.policy": "compact",
    "topic.creation.default.partitions": "2",
    "topic.creation.default.replication.factor": "1",
}


def test_a_topic_is_made_by_the_first_group_that_includes_it():
    groups = groups_of(TOPICS)
    assert topic_for(groups, "w1") == NewTopic("w1", 9, -1, {"cleanup.policy": "compact"})
    assert topic_for(groups, "w0") == NewTopic("w0", 2, 1, {})
    assert groups_of(SOURCE) == []


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"topic.creation.wid.partitions": "1"}, "has no group wid .did you mean wide"),
        ({"topic.creation.default.partitions": "0"}, "at least 1"),
        ({"topic.creation.default.include": "a"}, "for all topics that no other group has"),
        ({"topic.creation.wide.include": "("}, "Invalid regex"),
    ],
)
def test_groups_of_topics_that_cannot_be_made_are_refused(change, sentence):
    with pytest.raises(ConfigException, match=sentence):
        plans_of(WORKER, {**SOURCE, **TOPICS, **change})
