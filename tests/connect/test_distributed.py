"""The process of a distributed worker, and what its property file may say."""

import json
import signal
import subprocess
import sys

import pytest

from ottla.cli.main import main
from ottla.connect.distributed import settings_of
from ottla.connect.errors import ConfigException
from ottla.testing import TestBroker

GIVEN = {
    "bootstrap.servers": "b:1", "group.id": "g", "config.storage.topic": "c", "status.storage.topic": "s",
    "offset.storage.topic": "o",
}  # fmt: skip


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"group.id": ""}, '"group.id"'), ({"status.storage.partitions": "x"}, "status.storage.partitions"),
        ({"topic.tracking.enable": "maybe"}, "topic.tracking.enable"), ({"security.protocol": "SSL"}, "PLAINTEXT"),
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
