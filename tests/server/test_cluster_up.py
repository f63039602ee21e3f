"""`ottla cluster up` as a user runs it: brokers come up, come back, keep their ports, and stop together."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import threading

import pytest
from cluster_processes import until
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource
from tests.ports import first_of_free, free_port
from up_process import Up, alive

from ottla.cli.main import main
from ottla.client.admin.broker_table import BrokerLine
from ottla.client.admin.overview import overview_of
from ottla.client.model import Broker, PartitionView
from ottla.server import broker_child, cluster_ports
from ottla.server.broker_child import BrokerChild, Launch
from ottla.server.cluster_ports import give_ports
from ottla.server.cluster_table import plain
from ottla.server.cluster_up import defaults_for, joined_lines


def own_ports(brokers: int) -> tuple[str, str]:
    """Options for ports that no other cluster takes while a broker is down: nobody else's usual ones."""
    return "--port", str(first_of_free(brokers))


def test_three_brokers_come_up_come_back_and_stop_together(tmp_path, capsys):
    with Up(tmp_path / "c", *own_ports(3)) as up:
        servers = up.wait_for_all()
        first = up.brokers()
        assert sorted(first) == [1, 2, 3]
        producer = Producer({"bootstrap.servers": servers})
        producer.produce("t", b"x")
        assert producer.flush(30) == 0
        admin = AdminClient({"bootstrap.servers": servers})
        partition = admin.list_topics("t", timeout=60).topics["t"].partitions[0]
        assert sorted(partition.replicas) == [1, 2, 3]
        resource = ConfigResource(ConfigResource.Type.TOPIC, "t")
        assert admin.describe_configs([resource])[resource].result(60)["min.insync.replicas"].value == "2"

        os.kill(first[2]["pid"], signal.SIGKILL)
        until(lambda: up.brokers().get(2, first[2])["pid"] != first[2]["pid"])
        assert up.brokers()[2]["port"] == first[2]["port"]
        until(lambda: sorted(admin.list_topics("t", timeout=60).topics["t"].partitions[0].isrs) == [1, 2, 3])

        assert main(["cluster", "status", "-b", servers, "--format", "json"]) == 0
        status = json.loads(capsys.readouterr().out)
        assert status["caretaker"] in first
        assert [row["state"] for row in status["brokers"]] == ["serving"] * 3
        assert [row["lag"] for row in status["brokers"]] == [0, 0, 0]
        assert all(row["disk_bytes"] > 0 and row["bytes_out_per_s"] is not None for row in status["brokers"])
        assert [row["replicas"] for row in status["brokers"]] == [1, 1, 1]
        assert sum(row["leads"] for row in status["brokers"]) == 1
        assert (status["under_replicated"], status["leaderless"]) == (0, 0)
        assert main(["cluster", "describe", "-b", servers, "--format", "json"]) == 0
        (topic,) = json.loads(capsys.readouterr().out)
        assert sorted(topic["partitions"][0]["in_sync"]) == [1, 2, 3]

        last = up.brokers()
        code, output = up.end()
        assert code == 0, output
        assert "cluster ready: " + servers in output
        assert "broker 2 was killed by SIGKILL" in output
        assert "min.insync.replicas=2" in output
        assert up.brokers() == {}
        assert not any(alive(broker["pid"]) for broker in last.values())
    with Up(tmp_path / "c") as again:
        assert again.wait_for_all() == servers, "ports are kept"
        assert again.end(signal.SIGTERM)[0] == 0


def test_a_broker_that_is_not_to_be_brought_back_stays_away(tmp_path):
    with Up(tmp_path, "--no-restart", "--brokers", "2") as up:
        up.wait_for_all(2)
        for number in (2, 1):
            os.kill(up.brokers()[number]["pid"], signal.SIGKILL)
            until(lambda number=number: number not in up.brokers())
        output, _ = up.process.communicate(timeout=120)
        assert up.process.returncode == 1, output
        assert output.count(" serves on ") == 2


def test_a_broker_is_brought_back_though_nobody_can_be_told_of_it(tmp_path):
    """Stdout is closed, as by `ottla cluster up | head -1`, and cluster.json cannot be written."""

    def serves(port: int) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    with Up(tmp_path, "--brokers", "2", *own_ports(2)) as up:
        up.wait_for_all(2)
        first = up.brokers()[2]
        up.process.stdout.close()
        no_room = tmp_path / "cluster.json.tmp"
        no_room.mkdir()
        os.kill(first["pid"], signal.SIGKILL)
        until(lambda: not alive(first["pid"]))
        until(lambda: serves(first["port"]))
        no_room.rmdir()
        os.kill(up.brokers()[1]["pid"], signal.SIGKILL)
        until(lambda: len({first["pid"], *(each["pid"] for each in up.brokers().values())}) == 3)


def test_a_broker_is_brought_back_once_it_can_be_started_again(tmp_path):
    """Its log cannot be written for a while; the keeper retries and does not give up."""
    with Up(tmp_path, "--brokers", "2", *own_ports(2)) as up:
        up.wait_for_all(2)
        first = up.brokers()[2]
        log = tmp_path / "broker-2.log"
        log.rename(tmp_path / "before.log")
        log.mkdir()
        os.kill(first["pid"], signal.SIGKILL)
        assert any("broker 2 cannot be started (Is a directory)" in line for line in up.process.stdout)
        log.rmdir()
        until(lambda: up.brokers().get(2, first)["pid"] != first["pid"])


def test_a_port_that_is_taken_before_its_broker_binds_it_is_left_to_its_owner(tmp_path, monkeypatch, capsys):
    """Another cluster starts at the same time: the usual port was free when it was looked at."""
    usual = free_port()
    monkeypatch.setattr(cluster_ports, "FIRST_PORT", usual)
    state = tmp_path / "cluster.json"
    ended = threading.Event()

    def end_once_it_serves() -> None:
        until(lambda: state.exists() or ended.is_set())
        if state.exists():
            subprocess.run([sys.executable, "-m", "ottla", "cluster", "down", "--data", str(tmp_path)], check=True)

    with socket.socket() as owner:

        def choose_and_lose(directories, base, listener):
            chosen = give_ports(directories, base, listener)
            owner.bind(("127.0.0.1", usual))
            owner.listen()
            return chosen

        monkeypatch.setattr(cluster_ports, "give_ports", choose_and_lose)
        ending = threading.Thread(target=end_once_it_serves)
        ending.start()
        status = main(["cluster", "up", "--data", str(tmp_path), "--brokers", "1"])
        ended.set()
        ending.join()
    output = capsys.readouterr().out
    assert status == 0, output
    assert "broker 1 serves on 127.0.0.1:" in output
    assert f"127.0.0.1:{usual}" not in output


def test_brokers_do_not_outlive_their_supervisor(tmp_path):
    with Up(tmp_path, "--brokers", "2") as up:
        up.wait_for_all(2)
        pids = [broker["pid"] for broker in up.brokers().values()]
        with Up(tmp_path, "--brokers", "2") as second:
            output, _ = second.process.communicate(timeout=120)
            assert second.process.returncode == 1
            assert "is up" in output
        up.process.kill()
        until(lambda: not any(map(alive, pids)))


def test_a_broker_that_never_comes_up_ends_it_with_the_reason(tmp_path):
    (tmp_path / "broker-1").write_text("not a directory")
    with Up(tmp_path, "--brokers", "2") as up:
        output, _ = up.process.communicate(timeout=60)
        assert up.process.returncode == 1
        assert "is not a directory" in output
    shown = pytest.raises(AssertionError, match=r"broker 1 ended with exit code 1: .*is not a directory")
    with Up(tmp_path, "--brokers", "1") as up, shown:
        up.wait_for_all(1)


def test_a_terminal_shows_a_table_that_stays_in_its_place(tmp_path):
    ours, theirs = pty.openpty()
    with Up(tmp_path, "--brokers", "1", out=theirs) as up:
        os.close(theirs)
        shown = ""
        over_another = re.compile(
            r"\x1b\[\d+A\x1b\[2K[^\n]*BROKER  STATE [^\n]*\n\x1b\[2K *\* 1  serving  127\.0\.0\.1:"
        )
        while not over_another.search(shown):
            shown += os.read(ours, 4096).decode()
        assert "* the caretaker" in shown
        up.end()
    os.close(ours)


def test_machines_read_an_object_a_line(tmp_path):
    with Up(tmp_path, "--brokers", "1", "--format", "json") as up:
        events = (json.loads(line) for line in up.process.stdout if line.startswith("{"))
        ready = next(event for event in events if event["event"] == "ready")
        seen = next(event for event in events if event["event"] == "status" and event["caretaker"] == 1)
        (broker,) = seen["brokers"]
        assert ready["bootstrap_servers"] == broker["address"]
        assert (broker["state"], broker["pid"], broker["lag"]) == ("serving", up.brokers()[1]["pid"], 0)
        with Up(tmp_path / "other", "--format", "xml") as wrong:
            assert wrong.process.wait(60) == 2


def test_a_secure_cluster_lets_in_the_user_of_its_folder_alone(tmp_path, capsys):
    with Up(tmp_path / "c", "--brokers", "2", "--secure", *own_ports(2)) as up:
        servers = up.wait_for_all(2)
        folder = tmp_path / "c" / "secure"
        client = folder / "users" / "admin" / "client.properties"
        until(lambda: f"bootstrap.servers={servers}\n" in client.read_text())
        assert main(["topic", "create", "t", "--replicas", "2", "--command-config", str(client)]) == 0
        assert main(["cluster", "status", "--command-config", str(client), "--format", "json"]) == 0
        assert main(["secure", "user", "add", "alice", "--dir", str(folder)]) == 0
        assert main(["acl", "grant", "alice", "write", "--topic", "t", "--command-config", str(client)]) == 0
        lines = (folder / "users" / "alice" / "librdkafka.properties").read_text().splitlines()
        producer = Producer(dict(line.split("=", 1) for line in lines))
        producer.produce("t", b"x")
        assert producer.flush(30) == 0
        assert main(["topic", "list", "-b", servers]) == 1
        capsys.readouterr()
        assert up.end()[0] == 0


@pytest.mark.parametrize(
    ("brokers", "replicas", "least"), [(1, "1", None), (2, "2", None), (3, "3", "2"), (5, "3", "2")]
)
def test_a_cluster_has_as_many_replicas_as_it_has_brokers_for(brokers, replicas, least):
    said = defaults_for(brokers)
    assert said["default.replication.factor"] == replicas
    assert said.get("min.insync.replicas") == least


def test_what_is_seen_counts_brokers_that_are_gone():
    partitions = [
        PartitionView(0, 1, 3, (1, 2), (1,), (2,)),
        PartitionView(1, -1, 4, (2, 1), (2,), (2,)),
    ]
    seen = overview_of("c", 1, {1: Broker(1, "h", 1)}, [partitions])
    assert seen.caretaker == 1
    assert {number: tuple(share) for number, share in seen.shares.items()} == {1: (1, 2, 1), 2: (0, 2, 1)}
    assert seen.summary == "1 topic, 2 partitions, 1 without a leader, 2 under-replicated"
    line = BrokerLine(1, "serving", "h:1", seen.shares[1], caretaker=True)
    assert plain(line) == "broker 1 serving h:1, leads 1, in sync 1 of 2, caretaker"


def test_a_broker_that_takes_long_to_start_is_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(broker_child, "SLOW_START_S", 0.05)  # less than any start of a process takes
    told: list[str] = []

    async def story() -> None:
        launch = Launch(1, str(tmp_path / "broker-1"), ["--port", "0", "--join", f"sqlite:{tmp_path / 'store'}"])
        changed = asyncio.Event()
        broker = BrokerChild(launch, str(tmp_path / "log"), restarts=True, tell=told.append, on_change=changed.set)
        keeping = asyncio.create_task(broker.keep())
        while broker.state == "starting":
            changed.clear()
            await asyncio.wait_for(changed.wait(), 300)
        assert broker.state == "serving", told
        assert told[0].startswith("broker 1 has been starting for "), told
        await broker.stop()
        await keeping

    asyncio.run(story())


def test_a_broker_told_to_stop_while_its_process_is_made_stops(tmp_path):
    async def story() -> None:
        launch = Launch(1, str(tmp_path / "broker-1"), ["--port", "0", "--join", f"sqlite:{tmp_path / 'store'}"])
        broker = BrokerChild(launch, str(tmp_path / "log"), restarts=True, tell=print, on_change=lambda: None)
        keeping = asyncio.create_task(broker.keep())
        await asyncio.sleep(0)  # its start has begun, and there is no process yet
        await broker.stop()
        await asyncio.wait_for(keeping, 120)

    asyncio.run(story())


def test_a_broker_that_joined_from_elsewhere_is_listed_beside_our_own():
    brokers = {1: Broker(1, "h", 1, None), 4: Broker(4, "h", 4, "r")}
    seen = overview_of("c", 4, brokers, [])
    (line,) = joined_lines(seen, {}, {1})
    assert (line.broker, line.state, line.address, line.caretaker, line.rack) == (4, "serving", "h:4", True, "r")
    assert joined_lines(None, {}, {1}) == []


def test_an_option_that_no_broker_knows_is_refused_before_anything_is_made(tmp_path, capsys):
    folder = tmp_path / "c"
    assert main(["cluster", "up", "--data", str(folder), "--set", "log.retension.ms=1h"]) == 2
    assert "did you mean log.retention.ms?" in capsys.readouterr().err
    assert not folder.exists()
