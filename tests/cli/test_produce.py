"""`ottla produce`: input as people have it, and what is said of input that cannot become records."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from conftest import Ottla
from tests.forked_program import run_program

from ottla.cli.produce_sending import Outcomes


def read(ottla: Ottla, topic: str) -> list[dict[str, object]]:
    """The records of a topic, as `ottla consume --format json` prints them."""
    lines = ottla("consume", topic, "--from-beginning", "-e", "--format", "json").stdout
    return [json.loads(line) for line in lines.splitlines()]


def run_with_bytes(bootstrap: str, *arguments: bytes, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return run_program([*map(os.fsdecode, arguments), "-b", bootstrap], stdin=stdin)


def test_windows_line_ends_are_no_part_of_values(bootstrap: str, ottla: Ottla, name: str) -> None:
    run_with_bytes(bootstrap, b"produce", name.encode(), b"-K", b":", stdin=b"a:1\r\nb:2\r\n")
    assert [record["value"] for record in read(ottla, name)] == ["1", "2"]


def test_a_key_separator_may_have_any_characters(ottla: Ottla, name: str) -> None:
    assert ottla("produce", name, "-K", "→", stdin="a→1\n").returncode == 0
    assert ottla("produce", name, "-K", r"\t", stdin="b\t2\n").returncode == 0
    assert [(record["key"], record["value"]) for record in read(ottla, name)] == [("a", "1"), ("b", "2")]


def test_bytes_of_the_command_line_become_bytes_of_records(bootstrap: str, ottla: Ottla, name: str) -> None:
    given = run_with_bytes(bootstrap, b"produce", name.encode(), b"caf\xe9", b"-k", b"\xff", b"-H", b"h=\xfe")
    assert given.returncode == 0, given.stderr
    (record,) = read(ottla, name)
    assert (record["key_base64"], record["value_base64"]) == ("/w==", "Y2Fm6Q==")
    assert record["headers_base64"] == [["h", "/g=="]]


def test_records_that_are_no_text_are_copied_as_they_are(bootstrap: str, ottla: Ottla, name: str) -> None:
    ottla("topic", "create", name, f"{name}-copy")
    run_with_bytes(bootstrap, b"produce", name.encode(), b"\xff", b"-k", b"\xfe", b"-H", b"h=\xfd", b"-H", b"g=x")
    lines = ottla("consume", name, "--from-beginning", "-e", "--format", "json").stdout
    assert ottla("produce", f"{name}-copy", "--input", "json", stdin=lines).returncode == 0
    first, second = read(ottla, name), read(ottla, f"{name}-copy")
    assert [{**record, "topic": ""} for record in first] == [{**record, "topic": ""} for record in second]
    assert first[0]["headers_base64"] == [["h", "/Q=="], ["g", "eA=="]]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('"text"', "it is not an object"),
        ("[1]", "it is not an object"),
        ('{"value": "x", "partition": "a"}', "its partition is not a whole number"),
        ('{"value": "x", "partition": true}', "its partition is not a whole number"),
        ('{"value": "x", "partition": 7}', "has no partition 7: it has 1"),
        ('{"value": "x", "partition": -1}', "has no partition -1: it has 1"),
        ('{"value": "x", "timestamp": "noon"}', "its timestamp is not a whole number"),
        ('{"value": "x", "timestamp": -1}', "timestamp -1 is not a number of milliseconds since 1970"),
        ('{"value": "x", "timestamp": 99999999999999999999}', "is not a number of milliseconds since 1970"),
        ('{"value": "x", "headers": {"a": "b"}}', "its headers are not a list of [NAME, VALUE]"),
        ('{"value": "x", "headers": ["a"]}', "its headers are not a list of [NAME, VALUE]"),
        ('{"value": "x", "headers": [[null, "b"]]}', "a name in its headers is not text"),
        ('{"value": ' + "[" * 100_000, "not a record in JSON"),
        ('{"value_base64": "***"}', "base64"),
        ('{"value_base64": 7}', "Base64 is text"),
        ('{"value": "\\ud800"}', "surrogates not allowed"),
    ],
)
def test_a_line_that_is_no_record_is_one_sentence(ottla: Ottla, name: str, line: str, why: str) -> None:
    ottla("topic", "create", name)
    done = ottla("produce", name, "--input", "json", stdin=line + "\n")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert why in done.stderr
    assert done.stderr.endswith(f"nothing is written to {name}\n")


def test_headers_may_be_null(bootstrap: str, ottla: Ottla, name: str) -> None:
    done = ottla("produce", name, "--input", "json", stdin='{"value": "x", "headers": null}\r\n\r\n')
    assert done.stderr == f"wrote 1 record to {name} (1 to partition 0) at {bootstrap}\n"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["x", "--tombstone"], "VALUE goes without --tombstone"),
        (["x", "--file", "f"], "VALUE goes without --file"),
        (["x", "-K", ":"], "VALUE goes without --key-separator"),
        (["--tombstone", "--input", "json"], "--tombstone goes without --input"),
        (["--input", "json", "-k", "a"], "--input json goes without --key"),
        (["--input", "json", "-K", ":"], "--input json goes without --key-separator"),
        (["-K", ":", "-k", "a"], "--key-separator goes without --key"),
        (["-K", ""], "--key-separator is empty"),
        (["x", "--input", "csv"], "VALUE goes without --input"),
        (["--input", "cvs"], "--input is one of lines, jsonl, csv, tsv, avro, parquet, json, not cvs"),
        (["--input", "lines", "--time", "at"], "--input lines goes without --time"),
        (["--input", "jsonl", "-K", ":"], "--input jsonl goes without --key-separator"),
        (["--time-unit", "ms"], "--time-unit goes with --time"),
        (["--time", "at", "--time-unit", "min"], "--time-unit is one of s, ms, us, ns, not min"),
        (["--input", "csv", "--delimiter", "ab"], "--delimiter is one character"),
        (["--values"], "there are none"),
    ],
)
def test_options_that_would_have_no_effect_are_refused(ottla: Ottla, name: str, options: list[str], said: str) -> None:
    done = ottla("produce", name, *options)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr


def test_options_count_more_than_a_file(ottla: Ottla, name: str, tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text("acks=odd\npartitioner=odd\n")
    done = ottla("produce", name, "x", "--command-config", str(config), "--acks", "1", "--partitioner", "random")
    assert done.returncode == 0, done.stderr
    assert "acks" in ottla("produce", name, "x", "--command-config", str(config)).stderr


def test_a_partition_that_the_topic_has_not_is_one_sentence(ottla: Ottla, name: str) -> None:
    done = ottla("produce", name, "x", "-p", "7")
    assert (done.returncode, done.stderr) == (
        1, f"ottla: topic '{name}' has no partition 7: it has 1; nothing is written to {name}\n",
    )  # fmt: skip


def test_records_beside_one_that_is_refused_are_said_to_be_written(ottla: Ottla, name: str) -> None:
    ottla("topic", "create", name, "-c", "max.message.bytes=2000")
    done = ottla("produce", name, "-X", "batch.size=1", stdin="a\n" + "x" * 5000 + "\n")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert "MESSAGE_TOO_LARGE" in done.stderr
    assert done.stderr.endswith(f"; 1 record is written to {name}\n")


class _Known:
    """A delivery of one record whose outcome is known, or not yet."""

    def __init__(self, *, done: bool) -> None:
        self.done = done

    def result(self) -> object:
        self.done = True
        return iter([self])

    partition = 0
    count = 1


def test_records_whose_outcome_is_known_take_no_memory_any_more() -> None:
    outcomes = Outcomes(keep=False)
    waiting = _Known(done=False)
    for one in [*(_Known(done=True) for _ in range(10)), waiting, _Known(done=True)]:
        outcomes.add(one)  # type: ignore[arg-type]
    assert (outcomes.written[0], len(outcomes._waiting), outcomes.kept) == (10, 2, [])
    outcomes.finish()
    assert (outcomes.written[0], len(outcomes._waiting), waiting.done) == (12, 0, True)


def test_a_reader_config_of_kafkas_tools_may_have_escapes(ottla: Ottla, name: str, tmp_path: Path) -> None:
    config = tmp_path / "reader.properties"
    config.write_text("parse.key=true\nkey.separator=\\t\n")
    found = ottla("kafka-console-producer", "--topic", name, "--reader-config", str(config), stdin="a\tb\n")
    assert found.returncode == 0, found.stderr
    assert [(record["key"], record["value"]) for record in read(ottla, name)] == [("a", "b")]
