"""`ottla start --brokers`: a broker for each core, as processes that clients see as one cluster."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from cluster_processes import until
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.ports import first_of_free
from up_process import alive

from ottla.cli.main import main
from ottla.config.listeners import no_room_for, with_ports_above
from ottla.server.broker_child import Launch
from ottla.server.cores import cores_within
from ottla.server.main import StartOptions
from ottla.server.several_brokers import CannotRun, launches_for, numbers_for, with_own_store
from ottla.server.supervisor import BrokerSupervisor


def start(directory: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "ottla", "start", "--data", str(directory), "--http-port", "0", *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def running(directory: Path) -> dict[int, dict]:
    return {each["id"]: each for each in json.loads((directory / "cluster.json").read_text())["brokers"]}


def test_two_brokers_serve_behind_one_address_come_back_and_stop_together(tmp_path):
    """The data is that of one broker before, whose folder was moved as the refusal says."""
    data, port = tmp_path / "data", first_of_free(2)
    alone = start(data, "--port", str(port))
    try:
        assert " ready: " in alone.stdout.readline()
        assert main(["produce", "before", "kept", "-b", f"127.0.0.1:{port}"]) == 0
    finally:
        alone.terminate()
        alone.communicate(timeout=120)
    words = ["--port", str(port), "--brokers", "2", "--registry-port", "0"]
    refused = start(data, *words)
    _, said = refused.communicate(timeout=120)
    assert refused.returncode == 2
    subprocess.run(re.search(r"mv .*", said)[0], shell=True, check=True)

    process = start(data, *words)
    try:
        ready = process.stdout.readline()
        assert ready.endswith(f" ready: 127.0.0.1:{port}\n"), ready or process.communicate()
        registry = process.stdout.readline().partition("ottla registry ready: ")[2].strip()
        bootstrap = f"127.0.0.1:{port}"
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic("spread", 4, 1)], request_timeout=300)["spread"].result(300)
        seen = admin.list_topics(timeout=300)
        assert sorted(broker.port for broker in seen.brokers.values()) == [port, port + 1]
        leaders = {number: each.leader for number, each in seen.topics["spread"].partitions.items()}
        assert set(leaders.values()) == {1, 2}
        producer = Producer({"bootstrap.servers": bootstrap})
        for number in range(4):
            producer.produce("spread", str(number), partition=number)
        assert producer.flush(300) == 0
        other = Consumer(
            {"bootstrap.servers": f"127.0.0.1:{port + 1}", "group.id": "g", "auto.offset.reset": "earliest"}
        )
        other.subscribe(["spread", "before"])
        values = {other.poll(300).value() for _ in range(5)}
        other.close()
        assert values == {b"0", b"1", b"2", b"3", b"kept"}
        offsets = admin.list_topics("__consumer_offsets", timeout=60).topics["__consumer_offsets"].partitions.values()
        assert {len(partition.replicas) for partition in offsets} == {1}

        first = running(data)
        os.kill(first[2]["pid"], signal.SIGKILL)
        until(lambda: running(data).get(2, first[2])["pid"] != first[2]["pid"])
        producer.produce("spread", b"again", partition=min(number for number, leader in leaders.items() if leader == 2))
        assert producer.flush(300) == 0
        with urllib.request.urlopen(f"{registry}/subjects", timeout=60) as answer:
            assert json.load(answer) == []
        last = running(data)
    finally:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert "ottla: broker 2 was killed by SIGKILL" in errors
    assert not any(alive(broker["pid"]) for broker in last.values())
    assert (data / "broker-1.log").exists() and (data / "broker-2" / "meta.properties").exists()
    assert main(["start", "--data", str(data), "--port", "0"]) == 2, "one broker does not begin in the folder of two"


def test_a_registry_that_does_not_start_ends_all_with_its_reason(tmp_path):
    port = first_of_free(1)
    words = ["--brokers", "1", "--port", "0", "--registry-port", str(port), "--command-config", str(tmp_path / "none")]
    process = start(tmp_path / "data", *words)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "cannot start: the schema registry did not start" in errors
    assert "broker 1 has stopped" in errors


@pytest.mark.parametrize(
    ("text", "cores", "known", "numbers"),
    [("auto", 4, [], [1, 2, 3, 4]), ("auto", 2, [1, 2, 3], [1, 2, 3]), ("2", 8, [1], [1, 2]), ("1", 8, [], [1])],
)
def test_auto_is_a_broker_a_core_and_leaves_out_none_that_has_data(text, cores, known, numbers):
    assert list(numbers_for(text, cores, 1, known)) == numbers


def test_fewer_brokers_than_have_data_are_refused_with_both_ways_out():
    with pytest.raises(CannotRun, match=r"broker 3 has data .* give --brokers 3, or .*drain --broker 3"):
        numbers_for("2", 2, 1, [1, 2, 3])
    with pytest.raises(CannotRun, match=r"give --brokers 2 --id 5"):
        numbers_for("2", 2, 1, [5, 6])
    for text in ("0", "101", "all", "-1", "two", "²"):
        with pytest.raises(CannotRun, match=r"write auto \(2 here\), or a number from 1 to 100"):
            numbers_for(text, 2, 1, [])


@pytest.mark.parametrize(
    ("able", "quota", "cores"),
    [
        (8, "", 8),
        (8, "max 100000\n", 8),
        (8, "250000 100000\n", 2),
        (8, "50000 100000\n", 1),
        (2, "800000 100000\n", 2),
    ],
)
def test_cores_are_those_of_the_container(able, quota, cores):
    assert cores_within(able, quota) == cores


def test_each_broker_listens_one_port_above_the_one_before():
    texts = {"listeners": "PLAINTEXT://127.0.0.1:9092, SSL://[::1]:9192", "advertised.listeners": "SSL://h:9192"}
    moved = with_ports_above(texts, 2)
    assert moved["listeners"] == "PLAINTEXT://127.0.0.1:9094,SSL://[::1]:9194"
    assert moved["advertised.listeners"] == "SSL://h:9194"
    assert with_ports_above({}, 1) == {"listeners": "PLAINTEXT://127.0.0.1:9093"}
    assert with_ports_above({"listeners": "A://:0"}, 1) == {"listeners": "A://:0"}
    assert with_ports_above(texts, 0) == texts


def test_listeners_too_near_or_too_high_for_so_many_brokers_are_refused():
    near = {"listeners": "PLAINTEXT://:9092,SSL://:9093"}
    assert no_room_for(near, 1) is None
    assert "ports 9092 and 9093 leave no room for 2 brokers" in no_room_for(near, 2)
    assert no_room_for({"listeners": "PLAINTEXT://:9092,SSL://:9094"}, 2) is None
    assert no_room_for({"listeners": "PLAINTEXT://:0,SSL://:0"}, 2) is None
    assert "none above 65535" in no_room_for({"listeners": "PLAINTEXT://:65535"}, 2)


def test_each_broker_gets_the_options_that_were_given_and_a_place_of_its_own():
    options = StartOptions(http_port=9400, config="s.properties", set=["a=b"], insecure=True, log_format="json")
    texts = {"offsets.topic.replication.factor": "2"}
    first, second = launches_for(options, texts, ["/one", "/two"], range(5, 7))
    assert (second.number, second.data) == (6, "/one/broker-6,/two/broker-6")
    words = " ".join(second.arguments)
    assert words.startswith("--ports-above 1 --http-port 9401 --join sqlite:/one/store ")
    assert "--config s.properties" in words and "--insecure" in words and "--log-format json" in words
    assert "--set a=b" in words and "offsets.topic" not in words
    assert "--set transaction.state.log.replication.factor=1" in words
    assert first.arguments[:4] == ["--ports-above", "0", "--http-port", "9400"]


def test_a_broker_that_was_alone_serves_before_others_begin_a_store_of_their_own(tmp_path):
    launches = launches_for(StartOptions(), {}, [str(tmp_path)], range(1, 4))
    assert with_own_store(launches) is None
    store = tmp_path / "broker-2" / "metadata"
    store.mkdir(parents=True)
    (store / "metadata.db").touch()
    assert with_own_store(launches) == 2


def test_brokers_that_wait_for_the_first_are_stopped_with_it(tmp_path):
    """The first cannot be started: its log file is a directory."""
    (tmp_path / "broker-1.log").mkdir()
    launches = [Launch(number, str(tmp_path / f"broker-{number}"), []) for number in (1, 2)]
    told: list[str] = []

    async def story() -> int:
        display = Told(told)
        supervisor = BrokerSupervisor(
            str(tmp_path), launches, restarts=True, display=display, greet=told.extend, first=1
        )
        return await asyncio.wait_for(supervisor.run(), 120)

    assert asyncio.run(story()) == 1
    assert told[0].startswith("broker 1 cannot be started (Is a directory)")
    assert not (tmp_path / "broker-2.log").exists()


class Told:
    """A display that keeps the sentences."""

    def __init__(self, told: list[str]) -> None:
        self.say = told.append

    def greet(self, ready: str, addresses: list[str], about: list[str]) -> None: ...

    def show(self, lines: list[object], seen: object, *, all_served: bool) -> None: ...

    def end(self) -> None: ...


@pytest.mark.parametrize("more", [("--memory",), ("--port", "0", "--prefer-port", "9999")])
def test_options_for_one_broker_alone_are_refused_by_name(more, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["start", "--brokers", "2", *more]) == 2
    assert f"{more[-2] if len(more) > 1 else more[0]} goes with one broker" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
