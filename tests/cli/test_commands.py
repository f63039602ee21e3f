"""ottla's own commands end to end, as text and as JSON."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from conftest import Ottla, run_ottla

from ottla.records import compiled


def test_a_topic_from_creation_to_deletion(ottla: Ottla, name: str) -> None:
    assert ottla("topic", "create", name, "-p", "3", "-c", "retention.ms=60000").stdout == (
        f"created topic {name}, 3 partitions\n"
    )
    again = ottla("topic", "create", name)
    assert (again.returncode, "already exists" in again.stderr) == (1, True)
    assert ottla("topic", "create", name, "--if-not-exists").returncode == 0
    listed = json.loads(ottla("topic", "list", "--format", "json").stdout)
    assert {"topic": name, "partitions": 3, "replicas": 1, "state": "ok"} in listed
    ottla("produce", name, "a", "b", "-p", "1")
    (described,) = json.loads(ottla("topic", "describe", name, "--format", "json").stdout)
    assert described["configs"]["retention.ms"] == "60000"
    assert [part["end_offset"] for part in described["partitions"]] == [0, 2, 0]
    assert "RECORDS" in ottla("topic", "describe", name).stdout
    assert ottla("topic", "alter", name, "-p", "4", "--delete-config", "retention.ms").returncode == 0
    (described,) = json.loads(ottla("topic", "describe", name, "--format", "json").stdout)
    assert (len(described["partitions"]), "retention.ms" in described["configs"]) == (4, False)
    assert ottla("topic", "delete", name).stdout == f"deleted topic {name}\n"
    gone = ottla("topic", "describe", name)
    assert (gone.returncode, f"ottla topic create {name}" in gone.stderr) == (1, True)
    assert ottla("topic", "delete", name, "--if-exists").returncode == 0


def test_replicas_go_by_the_name_that_kafkas_tool_has_for_them_too(ottla: Ottla, name: str) -> None:
    assert ottla("topic", "create", name, "--replication-factor", "1").returncode == 0
    refused = ottla("topic", "create", f"{name}-2", "--replication-factor", "9")
    assert (refused.returncode, "9" in refused.stderr) == (1, True)


def test_options_that_all_verbs_have_may_stand_before_the_verb() -> None:
    before = run_ottla("topic", "-b", "127.0.0.1:1", "--format=json", "list")
    assert (before.returncode, "127.0.0.1:1" in before.stderr) == (1, True)
    assert "topic needs a verb before its options" in run_ottla("topic", "--internal", "list").stderr
    assert "usage: ottla topic VERB" in run_ottla("topic", "-h").stdout


def test_records_go_through_a_pipe_unchanged(ottla: Ottla, name: str) -> None:
    ottla("topic", "create", name, f"{name}-copy")
    ottla("produce", name, "-K", ":", "-H", "h=x", stdin="a:1\nb:2\nc:\n")
    ottla("produce", name, "-k", "gone", "--tombstone")
    lines = ottla("consume", name, "--from", "beginning", "-e", "--format", "json").stdout
    assert "wrote 4 records" in ottla("produce", f"{name}-copy", "--input", "json", stdin=lines).stderr
    copied = ottla("consume", f"{name}-copy", "--from", "beginning", "-e", "--format", "json").stdout
    kept = ("key", "value", "headers", "timestamp")
    first, second = (
        [{part: record.get(part) for part in kept} for record in map(json.loads, text.splitlines())]
        for text in (lines, copied)
    )
    assert first == second
    assert [(record["key"], record["value"]) for record in first] == [("a", "1"), ("b", "2"), ("c", ""), ("gone", None)]
    assert first[0]["headers"] == [["h", "x"]]


def test_consuming_starts_and_stops_where_it_is_told(ottla: Ottla, name: str) -> None:
    ottla("topic", "create", name)
    ottla("produce", name, *(str(number) for number in range(10)))

    def read(*arguments: str) -> list[str]:
        return ottla("consume", name, *arguments).stdout.split()

    assert read("--from", "beginning", "-n", "2") == ["0", "1"]
    assert read("--from", "7", "-e") == ["7", "8", "9"]
    assert read("--from", "-2", "-e") == ["8", "9"]
    assert read("--from", "2020-01-01T00:00:00", "-n", "1") == ["0"]
    assert read("-e") == []
    assert read("--timeout", "300") == []
    assert ottla("consume", "-t", name, "--from-beginning", "-n", "1", "-o", "%p/%o %v\\n").stdout == "0/0 0\n"


def test_a_group_goes_on_where_it_was_and_is_reset_and_deleted(ottla: Ottla, name: str) -> None:
    ottla("topic", "create", name)
    ottla("produce", name, *(str(number) for number in range(6)))
    assert ottla("consume", name, "-g", name, "--from", "beginning", "-n", "4").stdout.split() == ["0", "1", "2", "3"]
    (group,) = json.loads(ottla("group", "describe", name, "--format", "json").stdout)
    assert (group["state"], group["lag"], group["partitions"][0]["committed"]) == ("Empty", 2, 4)
    assert name in ottla("group", "list").stdout
    shown = ottla("group", "reset", name, "--to", "1")
    assert "nothing was changed" in shown.stderr
    assert ottla("group", "reset", name, "--to", "1", "--execute").returncode == 0
    assert ottla("consume", name, "-g", name, "-n", "1").stdout == "1\n"
    assert ottla("group", "delete", name).stdout == f"deleted group {name}\n"
    again = ottla("group", "delete", name)
    assert (again.returncode, "does not exist" in again.stderr) == (1, True)


def test_configurations_are_read_set_and_taken_back(ottla: Ottla, name: str) -> None:
    ottla("topic", "create", name)
    assert ottla("config", "set", "topic", name, "retention.ms=5", "cleanup.policy=compact").returncode == 0
    shown = json.loads(ottla("config", "get", "topic", name, "--format", "json").stdout)
    assert {"name": "retention.ms", "value": "5", "source": "DYNAMIC_TOPIC_CONFIG"} in shown
    assert ottla("config", "unset", "topic", name, "retention.ms").returncode == 0
    (one,) = json.loads(ottla("config", "get", "topic", name, "retention.ms", "--format", "json").stdout)
    assert one["value"] == "604800000"
    wrong = ottla("config", "set", "topic", name, "retention.ms=soon")
    assert wrong.returncode == 2
    assert "retention.ms" in wrong.stderr
    assert "there is no configuration 'nope'" in ottla("config", "get", "topic", name, "nope").stderr


def test_the_doctor_finds_a_healthy_broker_healthy_and_a_missing_one_missing(
    ottla: Ottla, bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTTLA_PURE", "" if compiled.which().startswith("pure") else "1")  # of the doctor's process
    healthy = ottla("doctor")
    assert healthy.returncode == 0
    assert f"bootstrap {bootstrap}" in healthy.stdout
    assert "reachable" in healthy.stdout
    assert f"broker 1 reads records: {compiled.which()}" in healthy.stdout, "the broker's, which is in this process"
    missing = run_ottla("doctor", "-b", "127.0.0.1:1", "--format", "json")
    assert missing.returncode == 1
    report = json.loads(missing.stdout)
    assert report["healthy"] is False
    assert any("ottla start" in line["advice"] for line in report["lines"])


def test_the_doctor_explains_an_advertised_address_that_leads_nowhere() -> None:
    from ottla.testing import TestBroker

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        here = f"127.0.0.1:{probe.getsockname()[1]}"
    with TestBroker({"listeners": f"PLAINTEXT://{here}", "advertised.listeners": "PLAINTEXT://127.0.0.1:1"}):
        done = run_ottla("doctor", "-b", here)
    assert done.returncode == 1
    assert "broker 1 advertises 127.0.0.1:1" in done.stdout
    assert "advertised.listeners" in done.stdout


def test_partitioners_are_chosen_by_name(ottla: Ottla, name: str) -> None:
    import zlib

    ottla("topic", "create", name, "-p", "7")
    (one,) = json.loads(
        ottla("produce", name, "v", "-k", "key", "--partitioner", "consistent", "--format", "json").stdout
    )
    assert one["partition"] == zlib.crc32(b"key") % 7
    wrong = ottla("produce", name, "v", "--partitioner", "mine")
    assert (wrong.returncode, "murmur2" in wrong.stderr) == (2, True)


def test_a_file_of_a_log_that_cannot_be_read_is_one_sentence_and_exit_status_1(tmp_path: Path) -> None:
    cut, garbled = tmp_path / "00000000000000000000.log", tmp_path / "recovery-point-offset-checkpoint"
    cut.write_bytes(b"\0\1 half a head")
    garbled.write_bytes(b"0\n1\nhalf a l")
    for path in (tmp_path / "00000000000000000007.log", tmp_path / "seven.log", garbled, tmp_path / "x.timeindex"):
        done = run_ottla("kafka-dump-log", "--files", str(path))
        assert (done.returncode, done.stderr.count("\n"), str(path) in done.stderr) == (1, 1, True), done.stderr
    done = run_ottla("kafka-dump-log", "--files", str(tmp_path))
    assert (done.returncode, done.stderr) == (1, f"{tmp_path}: a directory, not a file of a log\n")
    done = run_ottla("kafka-dump-log", "--files", str(cut))
    assert (done.returncode, done.stderr) == (0, f"Found 14 invalid bytes at the end of {cut.name}\n")


def test_kafka_dump_log_ignores_what_is_no_file_of_a_log_there_or_not(tmp_path: Path) -> None:
    for name in ("partition.metadata.none", "notes.txt"):
        path = tmp_path / name
        done = run_ottla("kafka-dump-log", "--files", str(path))
        assert (done.returncode, done.stdout) == (0, f"Dumping {path}\n")
        assert done.stderr == f"Ignoring unknown file {path}\n"
        path.touch()
        assert run_ottla("kafka-dump-log", "--files", str(path)).stdout == done.stdout


def test_what_is_no_number_is_refused_also_where_an_option_has_no_effect() -> None:
    done = run_ottla("kafka-consumer-groups", "--bootstrap-server", "x:1", "--list", "--timeout", "abc")
    assert (done.returncode, done.stderr) == (1, "Cannot parse argument 'abc' of option timeout\n")


def test_kafka_topics_looks_at_numbers_after_the_rest_of_its_command_line(ottla: Ottla, name: str) -> None:
    """As Apache Kafka's tool does, it says on standard output that it failed."""
    for words in (("--create", "--partitions"), ("--create", "--replication-factor"), ("--alter", "--partitions")):
        done = ottla("kafka-topics", "--topic", name, *words, "abc")
        fault = f"Cannot parse argument 'abc' of option {words[1].removeprefix('--')}"
        assert (done.returncode, done.stdout) == (1, f"Error while executing topic command : {fault}\n")
    incomplete = ottla("kafka-topics", "--create", "--partitions", "abc")
    assert (incomplete.returncode, incomplete.stdout) == (1, "")
    assert incomplete.stderr.startswith('Missing required argument "[topic]"\n')


def test_a_group_without_offsets_cannot_be_reset_without_a_topic(ottla: Ottla, name: str) -> None:
    done = ottla("group", "reset", name, "--to", "earliest")
    assert (done.returncode, "--topic" in done.stderr) == (1, True)


def test_records_before_a_line_without_its_separator_are_said_to_be_written(ottla: Ottla, name: str) -> None:
    ottla("topic", "create", name)
    done = ottla("produce", name, "-K", ":", stdin="a:1\nb:2\nbad\nc:3\n")
    assert (done.returncode, done.stderr) == (
        1, f"ottla: line 3 has no key separator ':': bad; the 2 records before it are written to {name}\n",
    )  # fmt: skip
    assert ottla("consume", name, "--from", "beginning", "-e").stdout.split() == ["1", "2"]
    done = ottla("produce", name, "--input", "json", stdin='{"value": "3"}\nbad\n')
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.endswith(f"bad; the record before it is written to {name}\n")


def test_nothing_before_a_bad_line_of_a_transaction_is_written(ottla: Ottla, name: str) -> None:
    ottla("topic", "create", name)
    done = ottla("produce", name, "-K", ":", "--transactional-id", name, stdin="a:1\nbad\n")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.endswith(f"the transaction is aborted: nothing is written to {name}\n")
    assert ottla("produce", name, "2").returncode == 0
    committed = ("--committed",)
    assert ottla("consume", name, "--from", "beginning", "-e", *committed).stdout.split() == ["2"]


def test_a_log_directory_is_dumped(tmp_path: object) -> None:
    from pathlib import Path

    from ottla.client.blocking.producer import Producer
    from ottla.testing import TestBroker

    folder = Path(str(tmp_path))
    with TestBroker(directory=folder) as broker, Producer(broker.bootstrap_servers) as producer:
        producer.produce("dumped", "the value", "the key")
        producer.flush(60)
    done = run_ottla("log", "dump", str(folder / "dumped-0"), "--data")
    assert done.returncode == 0
    assert "key: the key payload: the value" in done.stdout
    assert "leaderEpoch: " in done.stdout
    missing = run_ottla("log", "dump", str(folder / "nowhere"))
    assert missing.returncode == 2


@pytest.mark.parametrize("option", ["--partitions", "--replicas"])
@pytest.mark.parametrize("number", ["0", "-3"])
def test_a_topic_without_partitions_or_replicas_is_refused(ottla: Ottla, name: str, option: str, number: str) -> None:
    done = ottla("topic", "create", name, option, number)
    assert (done.returncode, f"ottla: {option} is at least 1\n" in done.stderr) == (2, True)
    assert ottla("topic", "describe", name).returncode == 1


def test_a_file_that_is_no_text_is_one_sentence(ottla: Ottla, tmp_path: Path) -> None:
    garbled = tmp_path / "client.properties"
    garbled.write_bytes(b"a=1\n\xff")
    done = ottla("topic", "list", "--command-config", str(garbled))
    assert (done.returncode, done.stderr) == (1, f"ottla: {garbled} is not text in UTF-8: byte 4 is 0xff\n")
    done = ottla("topic", "list", "--command-config", str(tmp_path / "none"))
    assert (done.returncode, done.stderr) == (1, f"ottla: {tmp_path}/none: No such file or directory\n")


def test_a_log_directory_without_strays_is_said_to_have_none(tmp_path: Path) -> None:
    done = run_ottla("log", "strays", str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "nothing is set aside there\n")
    assert json.loads(run_ottla("log", "strays", str(tmp_path), "--format", "json").stdout) == []


def test_changes_are_told_as_json(ottla: Ottla, name: str) -> None:
    ottla("topic", "create", name)

    def told(*arguments: str) -> object:
        return json.loads(ottla(*arguments, "--format", "json").stdout)

    assert told("topic", "alter", name, "-p", "2", "-c", "retention.ms=5", "--delete-config", "segment.ms") == {
        "topic": name, "partitions": 2, "set": {"retention.ms": "5"}, "unset": ["segment.ms"],
    }  # fmt: skip
    place = {"kind": "topic", "name": name}
    assert told("config", "set", "topic", name, "retention.ms=6") == {
        **place,
        "set": {"retention.ms": "6"},
        "unset": [],
    }
    assert told("config", "unset", "topic", name, "retention.ms") == {**place, "set": {}, "unset": ["retention.ms"]}


def test_what_is_only_text_is_not_asked_for_as_json(tmp_path: Path) -> None:
    done = run_ottla("log", "dump", str(tmp_path), "--format", "json")
    assert (done.returncode, done.stdout) == (2, "")
    assert "`ottla log dump` has no --format json" in done.stderr
    assert "--format" not in run_ottla("log", "dump", "--help").stdout
    assert "--format" in run_ottla("log", "check", "--help").stdout


def test_strays_that_are_removed_are_told_as_json(tmp_path: Path) -> None:
    assert json.loads(run_ottla("log", "strays", str(tmp_path), "--remove", "--format", "json").stdout) == []
