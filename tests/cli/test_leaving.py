"""Commands that read in a group leave it where the output ended, however they end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest
from tests.cli.conftest import Ottla
from tests.signals import from_a_terminal


def committed(ottla: Ottla, group: str) -> list[int]:
    """The committed offset of each partition that the group has read; 0 where it has none."""
    (told,) = json.loads(ottla("group", "describe", group, "--format", "json").stdout)
    return [part["committed"] or 0 for part in told["partitions"]]


def filled(ottla: Ottla, name: str) -> None:
    """A topic with three records in each of two partitions."""
    ottla("topic", "create", name, "-p", "2")
    for partition in ("0", "1"):
        ottla("produce", name, "-p", partition, *(f"{partition}-{number}" for number in range(3)))


def test_a_limit_leaves_the_records_of_every_partition_to_the_next_reader(ottla: Ottla, name: str) -> None:
    filled(ottla, name)
    read: list[str] = []
    for _ in range(3):
        found = ottla("kafka-console-consumer", "--topic", name, "--group", name, "--from-beginning",
                      "--max-messages", "2", "--timeout-ms", "20000")  # fmt: skip
        assert found.returncode == 0, found.stderr
        read += found.stdout.split()
        assert sum(committed(ottla, name)) == len(read)
    assert sorted(read) == ["0-0", "0-1", "0-2", "1-0", "1-1", "1-2"]


def test_a_record_that_cannot_be_shown_ends_the_reading_before_the_records_behind_it(ottla: Ottla, name: str) -> None:
    filled(ottla, name)
    found = ottla("kafka-console-consumer", "--topic", name, "--group", name, "--from-beginning",
                  "--value-deserializer", "Long")  # fmt: skip
    assert found.returncode == 1
    assert "Processed a total of 1 messages" in found.stderr
    assert sum(committed(ottla, name)) == 1


def begun(bootstrap: str, *arguments: str) -> subprocess.Popen[bytes]:
    flag = "--bootstrap-server" if arguments[0].startswith("kafka-") else "-b"
    command = [sys.executable, "-m", "ottla.cli.main", *arguments, flag, bootstrap]
    pipe = subprocess.PIPE
    return subprocess.Popen(from_a_terminal(command), stdin=pipe, stdout=pipe, stderr=pipe)


CONSUMERS = {
    "ottla": ("consume", "-t", "{}", "-g", "{}", "--from", "beginning"),
    "kafka": ("kafka-console-consumer", "--topic", "{}", "--group", "{}", "--from-beginning"),
}


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("tool", CONSUMERS)
def test_a_signal_ends_a_consumer_that_commits_and_leaves_its_group(
    bootstrap: str, ottla: Ottla, name: str, tool: str, ending: signal.Signals
) -> None:
    ottla("produce", name, "one", "two")
    with begun(bootstrap, *(word.format(name) for word in CONSUMERS[tool])) as consumer:
        assert consumer.stdout is not None
        assert [consumer.stdout.readline(), consumer.stdout.readline()] == [b"one\n", b"two\n"]
        consumer.send_signal(ending)
        _, told = consumer.communicate(timeout=30)
    assert consumer.returncode == 128 + ending
    assert told == (b"Processed a total of 2 messages\n" if tool == "kafka" else b"")
    (group,) = json.loads(ottla("group", "describe", name, "--format", "json").stdout)
    assert (group["members"], group["lag"]) == (0, 0)
    assert committed(ottla, name) == [2]


PRODUCERS = {
    "ottla": ("produce", "-t", "{}", "-X", "linger.ms=600000", "-X", "batch.size=4000000"),
    "kafka": (
        "kafka-console-producer", "--topic", "{}", "--timeout", "600000", "--batch-size", "4000000",
        "--request-timeout-ms", "60000",  # by default 1.5 s, after which it gives a record up
    ),
}  # fmt: skip


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("tool", PRODUCERS)
def test_a_signal_ends_a_producer_that_sends_what_it_has_read(
    bootstrap: str, ottla: Ottla, name: str, tool: str, ending: signal.Signals
) -> None:
    more_than_a_pipe_holds = b"x" * 1000 + b"\n"
    with begun(bootstrap, *(word.format(name) for word in PRODUCERS[tool])) as producer:
        assert producer.stdin is not None
        producer.stdin.write(b"first\n" + more_than_a_pipe_holds * 200)
        producer.stdin.flush()
        producer.send_signal(ending)
        _, said = producer.communicate(timeout=60)
    assert producer.returncode == 128 + ending
    assert ottla("consume", name, "--from", "beginning", "-e").stdout.startswith("first\n"), said.decode()


def test_a_signal_that_was_ignored_stays_so(bootstrap: str, ottla: Ottla, name: str) -> None:
    """As nohup wants it."""
    ottla("produce", name, "one")
    arguments = ["consume", name, "--from", "beginning", "-b", bootstrap]
    ignored = f"import os, signal; signal.signal(signal.SIGHUP, signal.SIG_IGN); os.execv({sys.executable!r}, " + (
        f"{[sys.executable, '-m', 'ottla.cli.main', *arguments]!r})"
    )
    with subprocess.Popen([sys.executable, "-c", ignored], stdout=subprocess.PIPE) as consumer:
        assert consumer.stdout is not None
        assert consumer.stdout.readline() == b"one\n"
        consumer.send_signal(signal.SIGHUP)
        ottla("produce", name, "two")
        assert consumer.stdout.readline() == b"two\n"
        consumer.terminate()
    assert consumer.returncode == 128 + signal.SIGTERM
