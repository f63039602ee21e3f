"""The process of a distributed worker, and what its property file may say."""

import json
import signal
import subprocess
import sys
import time
import urllib.request

import pytest
from tests.access.certificates import authority

from ottla.cli.main import main
from ottla.client import Admin, Consumer, TopicPartition
from ottla.connect.distributed import settings_for, settings_of
from ottla.connect.errors import ConfigException
from ottla.connect.rest.listener import address_of, context_of, guarded
from ottla.testing import TestBroker

STRING = "org.apache.kafka.connect.storage.StringConverter"
GIVEN = {
    "bootstrap.servers": "b:1", "group.id": "g", "config.storage.topic": "c", "status.storage.topic": "s",
    "offset.storage.topic": "o",
}  # fmt: skip


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"group.id": ""}, '"group.id"'), ({"status.storage.partitions": "x"}, "status.storage.partitions"),
        ({"topic.tracking.enable": "maybe"}, "topic.tracking.enable"),
        ({"offset.flush.interval.ms": "soon"}, "offset.flush.interval.ms"), ({"security.protocol": "TLS"}, "PLAINTEXT"),
        ({"ssl.keystore.locaton": "/k"}, r"did you mean ssl\.keystore\.location"),
        ({"producer.security.protocol": "SASL_SSL"}, r"producer\.sasl\.mechanism is GSSAPI where none is given"),
        ({"consumer.security.protocol": "SASL_SSL", "consumer.sasl.mechanism": "PLAIN"}, "a user and a password"),
        ({"listeners.https.ssl.keystore.lokation": "/k"}, r"did you mean ssl\.keystore\.location"),
    ],
)  # fmt: skip
def test_a_property_that_cannot_be_used_is_named(more, said):
    with pytest.raises(ConfigException, match=said):
        settings_of(GIVEN | more)


def test_a_property_without_effect_is_named_with_the_nearest(caplog):
    settings = settings_of(GIVEN | {"group.ib": "x", "key.converter": "y", "producer.acks": "all"})
    assert settings.group_id == "g"
    assert len(caplog.messages) == 1
    assert "group.ib" in caplog.messages[0]
    assert "group.id" in caplog.messages[0]


@pytest.mark.parametrize(
    ("listeners", "said"),
    [
        ("ftp://a:1", "write http://HOST:PORT or https://HOST:PORT"), ("http://a:1,http://b:2", "at one address"),
        ("http://a:x", "Port could not be cast"),
    ],
)  # fmt: skip
def test_listeners_that_there_are_not_here_are_refused(listeners, said):
    with pytest.raises(ConfigException, match=said):
        address_of({"listeners": listeners})


def test_a_worker_process_alone_serves_calls_without_a_connectors_file(tmp_path):
    file, text = tmp_path / "worker.properties", ["bootstrap.servers=127.0.0.1:1", "listeners=http://127.0.0.1:0"]
    file.write_text("\n".join([*text, f"offset.storage.file.filename={tmp_path / 'offsets'}"]))
    command = [sys.executable, "-m", "ottla.cli.main", "connect", "start", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert answer(f"{process.stdout.readline().split()[3]}/connectors") == []
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(90) == 0


def test_a_worker_process_runs_what_is_created_over_http_and_stops_when_told(tmp_path, capsys):
    (tmp_path / "in.txt").write_text("one\ntwo\n")
    connector = tmp_path / "lines.json"
    connector.write_text(
        json.dumps(
            {"name": "lines", "connector.class": "FileStreamSource", "file": str(tmp_path / "in.txt"), "topic": "lines"}
        )
    )
    with TestBroker() as broker:
        file = tmp_path / "worker.properties"
        text = GIVEN | {"bootstrap.servers": broker.bootstrap_servers, "listeners": "http://127.0.0.1:0",
                        "offset.storage.partitions": "1", "status.storage.partitions": "1"}  # fmt: skip
        file.write_text("".join(f"{name}={value}\n" for name, value in text.items()))
        command = [sys.executable, "-m", "ottla.cli.main", "connect", "start", str(file)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                url = process.stdout.readline().split()[3]
                assert main(["connect", "create", str(connector), "--url", url]) == 0
                assert capsys.readouterr().out == "lines: a source connector\n"
                found = broker.records("lines", at_least=2, timeout=90)
                assert [record.value for record in found] == [b"one", b"two"]
            finally:
                process.send_signal(signal.SIGTERM)
                assert process.wait(90) == 0


def run_worker(path, bootstrap, **more):
    """A worker process of a group with short sessions; its URL."""
    text = GIVEN | {
        "bootstrap.servers": bootstrap, "listeners": "http://127.0.0.1:0", "offset.storage.partitions": "1",
        "status.storage.partitions": "1", "session.timeout.ms": "6000", "heartbeat.interval.ms": "500",
        "offset.flush.interval.ms": "100", "key.converter": STRING, "value.converter": STRING,
        **more,
    }  # fmt: skip
    path.write_text("".join(f"{name}={value}\n" for name, value in text.items()))
    command = [sys.executable, "-m", "ottla.cli.main", "connect", "start", str(path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    return process, process.stdout.readline().split()[3]


def answer(url):
    with urllib.request.urlopen(url, timeout=60) as response:
        return json.load(response)


def running_on(url, names):
    """The worker of each connector's task; None for one that does not run."""
    shown = answer(f"{url}/connectors?expand=status")
    tasks = [(shown.get(name, {}).get("status", {}).get("tasks") or [{"state": None}])[0] for name in names]
    return [task["worker_id"] if task["state"] == "RUNNING" else None for task in tasks]


def until(holds):
    """Wait for a condition; the test's own timeout ends a wait in vain."""
    while not holds():
        time.sleep(0.1)


def test_the_tasks_of_a_killed_worker_process_run_on_the_other_with_nothing_lost(tmp_path):
    names, processes = ["one", "two"], []
    with TestBroker() as broker:
        try:
            urls = []
            for number in range(2):
                process, url = run_worker(tmp_path / f"{number}.properties", broker.bootstrap_servers)
                processes.append(process)
                urls.append(url)
            for name in names:
                (tmp_path / name).write_text(f"{name} before\n")
                config = {"connector.class": "FileStreamSource", "file": str(tmp_path / name), "topic": "lines"}
                (tmp_path / f"{name}.json").write_text(json.dumps({"name": name, "config": config}))
                assert main(["connect", "create", str(tmp_path / f"{name}.json"), "--url", urls[1]]) == 0
            workers = [url.removeprefix("http://") for url in urls]
            until(lambda: sorted(map(str, running_on(urls[1], names))) == sorted(workers))
            processes[0].kill()
            for name in names:
                with (tmp_path / name).open("a") as more:
                    more.write(f"{name} behind\n")
            until(lambda: running_on(urls[1], names) == [workers[1]] * 2)
            wanted = {f"{name} {word}".encode() for name in names for word in ("before", "behind")}
            until(lambda: {record.value for record in broker.records("lines")} == wanted)
        finally:
            for process in processes:
                process.kill()
                process.communicate()


def test_a_source_whose_workers_are_killed_is_read_exactly_once_in_its_order(tmp_path):
    """Each worker is killed once some of its lines are committed: it is amid the next ones then."""
    once = {"exactly.once.source.support": "enabled", "offset.storage.topic": "once-offsets"}
    lines = [f"line {number}" for number in range(10_000)]
    (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in lines))
    config = {"connector.class": "FileStreamSource", "file": str(tmp_path / "in.txt"), "topic": "once",
              "batch.size": "20", "exactly.once.support": "required"}  # fmt: skip
    (tmp_path / "once.json").write_text(json.dumps({"name": "once", "config": config}))
    processes = []
    with TestBroker() as broker, Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("once", partitions=1)
        settings = {"isolation_level": "read_committed", "group_id": None, "auto_offset_reset": "earliest"}
        with Consumer(broker.bootstrap_servers, **settings) as consumer:
            consumer.assign([TopicPartition("once", 0)])
            found = []
            try:
                for kill in range(3):
                    process, url = run_worker(tmp_path / f"{kill}.properties", broker.bootstrap_servers, **once)
                    processes.append(process)
                    if not kill:
                        assert main(["connect", "create", str(tmp_path / "once.json"), "--url", url]) == 0
                    wanted = len(lines) if kill == 2 else len(found) + 100
                    while len(found) < wanted:
                        found += [record.value.decode() for record in consumer.poll(1_000)]
                    process.kill()
            finally:
                for process in processes:
                    process.kill()
                    process.communicate()
        assert found == lines
        ends = broker.records("once-offsets")
        assert len(ends) > 3, "the offsets were written with the lines"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["w.properties", "--port", "1"], "--port goes without a worker's file"),
        (["w.properties", "-b", "b:1"], "--bootstrap-server goes without a worker's file"),
        (["--port", "65536"], "--port 65536 is not a port"),
    ],
)
def test_what_a_file_says_is_not_said_again_on_the_command_line(arguments, said, capsys):
    assert main(["connect", "start", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_https_takes_the_options_of_tls_and_those_of_its_own_first(tmp_path):
    signer = authority()
    key = signer.sign("worker").file(tmp_path)
    assert context_of({"listeners": "http://a:1"}) is None
    for name in ("ssl.keystore.location", "listeners.https.ssl.keystore.location"):
        assert context_of({"listeners": "https://:8443", name: key}) is not None
    with pytest.raises(ConfigException, match=r"listeners: .*set ssl\.keystore\.location"):
        context_of({"listeners": "https://:8443"})
    with pytest.raises(ConfigException, match=r"ottla\.rest\.users: .*No such file"):
        guarded(print, {"ottla.rest.users": str(tmp_path / "users")})


def test_a_worker_without_a_file_logs_in_by_a_file_of_client_options():
    client = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "a", "sasl.password": "b"}
    settings = settings_for("b:1", 8083, {**client, "bootstrap.servers": "other:1"})
    assert settings.bootstrap == "b:1"
    assert {name: settings.properties[name] for name in client} == client
