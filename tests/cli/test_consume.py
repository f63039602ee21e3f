"""`ottla consume`: templates with any characters, and options that make no sense."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Ottla

from ottla.cli.command import unescaped


def test_a_template_may_have_any_characters(ottla: Ottla, name: str) -> None:
    ottla("produce", name, "one")
    read = ("consume", name, "--from-beginning", "-e", "-o")
    assert ottla(*read, "ü→: %v\\n").stdout == "ü→: one\n"
    assert ottla(*read, "%v\\x").stdout == "one\\x"


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        (r"\n\t\\\"", '\n\t\\"'),
        (r"\0\12\101\377", "\0\nA\xff"),
        (r"\x41\u2192", "A→"),
        (r"ü→ \x4 \q \ud800 \u12", r"ü→ \x4 \q \ud800 \u12"),
    ],
)
def test_escapes_stand_for_characters_and_all_else_for_itself(text: str, meant: str) -> None:
    assert unescaped(text) == meant


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["-p", "abc"], "'abc' is not a partition"),
        (["-p", "0,,1"], "'' is not a partition"),
        (["-p", "0,9"], "there is no partition 9 in "),
        (["-n", "0"], "--count is at least 1"),
        (["-n", "-3"], "--count is at least 1"),
        (["--from", "5"], "give --from-beginning or --from, not both"),
    ],
)
def test_records_other_than_those_asked_for_are_not_printed(
    ottla: Ottla, name: str, options: list[str], said: str
) -> None:
    ottla("produce", name, "one")
    done = ottla("consume", name, "--from-beginning", "-e", *options)
    assert (done.returncode, done.stdout, said in done.stderr) == (2, "", True), done.stderr


def test_an_unknown_reset_of_offsets_is_refused_before_anything_is_read(ottla: Ottla, name: str) -> None:
    ottla("topic", "create", name)
    for tool in (("consume", name, "-e", "-X"), ("kafka-console-consumer", "--topic", name, "--command-property")):
        done = ottla(*tool, "auto.offset.reset=by_duration:PT1H")
        assert done.returncode in (1, 2)
        assert "auto.offset.reset is earliest, latest or none, not by_duration:PT1H" in done.stderr


@pytest.mark.parametrize("start", ["5", "-3", "2026-01-31T12:00:00", "nonsense"])
def test_a_group_begins_at_no_offset_or_time(ottla: Ottla, name: str, start: str) -> None:
    done = ottla("consume", name, "-g", name, "--from", start, "--timeout", "1")
    assert (done.returncode, "a group goes on where it has committed" in done.stderr) == (2, True), done.stderr


def test_options_count_more_than_a_file(ottla: Ottla, name: str, tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text("auto.offset.reset=odd\nisolation.level=odd\n")
    ottla("produce", name, "one")
    options = ("--from", "beginning", "--committed", "-e", "--command-config", str(config))
    assert ottla("consume", name, *options).stdout == "one\n"


def test_values_alone_are_those_that_other_templates_show(ottla: Ottla, name: str) -> None:
    ottla("topic", "create", name, "-p", "3")
    for number in range(3):
        lines = "".join(f"p{number} v{index}\n" for index in range(50))
        ottla("produce", name, "-p", str(number), "-X", "batch.size=200", stdin=lines)
    whole = ottla("consume", name, "--from-beginning", "-e").stdout
    assert sorted(whole.splitlines()) == sorted(f"p{number} v{index}" for number in range(3) for index in range(50))
    assert ottla("consume", name, "--from-beginning", "-e", "-p", "1").stdout == "".join(
        f"p1 v{index}\n" for index in range(50)
    )
    assert ottla("consume", name, "--from", "37", "-e", "-p", "2", "-n", "5").stdout == "".join(
        f"p2 v{index}\n" for index in range(37, 42)
    )


def test_a_group_goes_on_behind_what_was_printed(ottla: Ottla, name: str) -> None:
    ottla("topic", "create", name, "-p", "2")
    for number in range(2):
        ottla("produce", name, "-p", str(number), stdin="".join(f"{number}-{index}\n" for index in range(20)))
    parts = [
        ottla("consume", name, "-g", name, "--from", "beginning", "-n", str(count)).stdout.splitlines()
        for count in (13, 14, 13)
    ]
    assert [len(part) for part in parts] == [13, 14, 13]
    assert sorted(line for part in parts for line in part) == sorted(f"{p}-{i}" for p in range(2) for i in range(20))


def test_a_record_without_a_value_is_shown_as_null(ottla: Ottla, name: str) -> None:
    ottla("produce", name, "--tombstone", "-k", "a")
    assert ottla("consume", name, "--from-beginning", "-e").stdout == "null\n"


def test_a_time_is_written_as_people_say_it(ottla: Ottla, name: str, tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text('{"value": "old", "timestamp": 1000000000000}\n')
    ottla("topic", "create", name, "-c", "retention.ms=-1")
    ottla("produce", name, "--file", str(tmp_path / "old.json"), "--input", "json")
    ottla("produce", name, "new")
    for since in ("-1h", "1h ago", "yesterday", "2020-01-01"):
        assert ottla("consume", name, "--from", since, "-e").stdout == "new\n", since
    assert ottla("consume", name, "--from", "1999-12-31", "-e").stdout == "old\nnew\n"
    done = ottla("consume", name, "--from", "soon", "-e")
    assert done.returncode == 2 and "--from: 'soon' is not a time" in done.stderr


def test_an_offset_that_is_not_there_is_said(ottla: Ottla, name: str) -> None:
    ottla("topic", "create", name)
    ottla("produce", name, "one", "two")
    done = ottla("consume", name, "--from", "7", "-e")
    assert done.stdout == "" and f"{name}-0 has offsets from 0 to 2: 2 is taken, not 7" in done.stderr
