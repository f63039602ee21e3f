"""The program by itself: its messages, its exit status, its imports."""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from conftest import Ottla, run_ottla

from ottla.cli.main import COMMANDS, KAFKA_TOOLS
from ottla.cli.options import Parser


def test_the_overview_names_every_command_and_tool() -> None:
    done = run_ottla("--help")
    assert done.returncode == 0
    assert all(f"  {name} " in done.stdout for name in [*COMMANDS, *KAFKA_TOOLS])


def test_a_mistyped_command_is_guessed() -> None:
    done = run_ottla("topc")
    assert (done.returncode, done.stdout) == (2, "")
    assert "Did you mean `ottla topic`?" in done.stderr
    assert "did you mean `ottla topic list`?" in run_ottla("topic", "lst").stderr


@pytest.mark.parametrize("noun", ["topic", "group", "config", "transaction"])
def test_every_noun_lists_its_verbs_and_every_verb_its_options(noun: str) -> None:
    done = run_ottla(noun, "--help")
    assert done.returncode == 0
    verbs = [line.split()[0] for line in done.stdout.splitlines() if line.startswith("  ")]
    assert verbs
    told = run_ottla(noun, verbs[0], "--help")
    assert told.returncode == 0
    assert "--bootstrap-server" in told.stdout


def test_a_broker_that_is_not_there_is_one_line_on_stderr_and_exit_code_1() -> None:
    for arguments in (["topic", "list"], ["consume", "t"], ["group", "list"]):
        done = run_ottla(*arguments, "-b", "127.0.0.1:1")
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.count("\n") == 1
        assert "ottla start" in done.stderr


def test_misuse_is_exit_code_2_with_the_usage_line() -> None:
    for arguments in (["topic", "create"], ["topic", "list", "--format", "yaml"], ["config", "get", "moon", "x"]):
        done = run_ottla(*arguments)
        assert done.returncode == 2
        assert "usage: ottla" in done.stderr


@pytest.mark.parametrize("options", [["-b", "localhost:1"], ["--format=json"], ["--nonsense"]])
def test_options_without_a_verb_are_answered_with_the_verbs(options: list[str]) -> None:
    done = run_ottla("features", *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "ottla: features needs a verb before its options: there are describe, upgrade, downgrade\n"


def test_the_help_of_kafka_cluster_is_that_of_kafkas_tool() -> None:
    done = run_ottla("kafka-cluster", "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "usage: kafka-cluster [-h] {cluster-id,unregister,list-endpoints} ...\n\nThe Kafka cluster tool.\n\n"
        "positional arguments:\n  {cluster-id,unregister,list-endpoints}\n"
        "    cluster-id           Get information about the ID of a cluster.\n"
        "    unregister           Unregister a broker.\n    list-endpoints       List endpoints\n\n"
        "optional arguments:\n  -h, --help             show this help message and exit\n"
    )


def test_help_behind_a_subcommand_of_kafka_cluster_is_an_answer() -> None:
    done = run_ottla("kafka-cluster", "cluster-id", "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "--bootstrap-server" in done.stdout
    done = run_ottla("kafka-cluster", "cluster-id", "--nonsense")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith("kafka-cluster: error: nonsense is not a recognized option\n")


@pytest.mark.parametrize("tool", KAFKA_TOOLS)
def test_no_tool_speaks_of_an_option_that_it_does_not_take(tool: str) -> None:
    module = import_module(KAFKA_TOOLS[tool][0].partition(":")[0])
    taken = {name for value in vars(module).values() for name in _options_in(value)}
    assert taken, "the options are found"
    tree = ast.parse(inspect.getsource(module))
    constants = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    texts = [text for text in constants if isinstance(text, str)]
    assert {name for text in texts for name in re.findall(r"(?<![\w-])--([a-z][\w.-]*\w)", text)} <= taken


def test_the_advice_where_no_broker_answers_can_be_followed_with_every_tool() -> None:
    done = run_ottla("kafka-topics", "--bootstrap-server", "localhost:1", "--list")
    assert (done.returncode, "the address of another, HOST:PORT" in done.stderr + done.stdout) == (1, True)
    assert "-b/" not in done.stderr + done.stdout


def _options_in(value: object) -> Iterator[str]:
    if isinstance(value, Parser):
        yield from value.options
        yield from (option.also for option in value.options.values() if option.also is not None)
    elif isinstance(value, dict):
        yield from _options_in(tuple(value.values()))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _options_in(each)


def test_shims_stand_for_the_tools_with_and_without_sh(ottla: Ottla, tmp_path: Path, bootstrap: str, name: str) -> None:
    assert run_ottla("shims", str(tmp_path)).returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        tool + suffix for tool in KAFKA_TOOLS for suffix in ("", ".sh")
    )
    shim = tmp_path / "kafka-topics.sh"
    assert shim.stat().st_mode & stat.S_IXUSR
    ottla("topic", "create", name)
    done = subprocess.run(
        [shim, "--bootstrap-server", bootstrap, "--list"], capture_output=True, text=True, timeout=30, check=True
    )
    assert name in done.stdout.splitlines()


def test_output_that_nobody_reads_any_more_ends_quietly(ottla: Ottla, name: str, bootstrap: str) -> None:
    ottla("produce", name, stdin="line\n" * 20_000)
    reading = subprocess.Popen(
        [sys.executable, "-m", "ottla.cli.main", "consume", name, "--from", "beginning", "-e", "-b", bootstrap],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert reading.stdout is not None
    assert reading.stderr is not None
    assert reading.stdout.read(4) == b"line"
    reading.stdout.close()
    assert reading.wait(60) in (0, 1)
    assert b"Traceback" not in reading.stderr.read()
    reading.stderr.close()


HEAVY = ("numpy", "pandas", "pyarrow", "pyspark", "polars", "re2", "h11", "kazoo", "concurrent.futures.process")
"""Modules that take longer to import than a command may take; `python -m bench.commands` has the times."""


def test_no_command_imports_what_takes_long(ottla: Ottla, bootstrap: str, name: str, tmp_path: Path) -> None:
    ottla("topic", "create", name)
    ottla("produce", name, "one", "two")
    offsets = tmp_path / "offsets.json"
    offsets.write_text(json.dumps({"partitions": [{"topic": name, "partition": 0, "offset": 0}], "version": 1}))
    at = ("--bootstrap-server", bootstrap)
    commands = [
        ["--help"],
        ["kafka-topics", "--help"],
        ["topic", "list", "-b", bootstrap],
        ["topic", "describe", name, "-b", bootstrap],
        ["consume", name, "--from", "beginning", "-e", "-b", bootstrap],
        ["group", "list", "-b", bootstrap],
        ["config", "get", "topic", name, "-b", bootstrap],
        ["doctor", "-b", bootstrap],
        ["kafka-topics", *at, "--describe", "--topic", name],
        ["kafka-console-consumer", *at, "--topic", name, "--from-beginning", "--max-messages", "2"],
        ["kafka-consumer-groups", *at, "--list"],
        ["kafka-configs", *at, "--topic", name, "--describe"],
        ["kafka-get-offsets", *at, "--topic", name],
        ["kafka-delete-records", *at, "--offset-json-file", str(offsets)],
        ["kafka-log-dirs", *at, "--describe"],
        ["kafka-broker-api-versions", *at],
    ]
    for arguments in commands:
        done = subprocess.run(
            [sys.executable, "-c", _NAMES_HEAVY, *arguments], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.stderr.splitlines()[-1:] == ["heavy: []"], arguments


_NAMES_HEAVY = f"""
import sys
from ottla.cli.main import main
try:
    main(sys.argv[1:])
finally:
    sys.stderr.write(f"heavy: {{[name for name in {HEAVY!r} if name in sys.modules]}}\\n")
"""


def test_a_command_of_another_package_is_found_by_its_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib import metadata

    from ottla.cli import main

    entry = metadata.EntryPoint("extra", "tests_cli_extra:command", "ottla.commands")
    monkeypatch.setattr(metadata, "entry_points", lambda group: [entry] if group == "ottla.commands" else [])
    monkeypatch.setattr(metadata.EntryPoint, "load", lambda self: len)
    assert main.main(["extra", "a", "b"]) == 2


def test_shims_are_not_written_over_a_file(tmp_path: Path) -> None:
    (tmp_path / "bin").touch()
    done = run_ottla("shims", str(tmp_path / "bin"))
    assert (done.returncode, done.stderr) == (1, f"ottla: {tmp_path}/bin: File exists\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-b", "localhost:9092", "topic", "list"], "the command comes first, -b behind it"),
        (["kafka-delegation-tokens", "--describe"], "there is no kafka-delegation-tokens: `ottla token`"),
        (["kafka-storage.sh", "format"], "a data directory needs no formatting"),
        (["connect-standalone"], "ottla connect start"),
    ],
)
def test_a_newcomer_is_told_how_it_is_done_here(words: list[str], said: str) -> None:
    done = run_ottla(*words)
    assert (done.returncode, done.stdout, said in done.stderr) == (2, "", True), done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("topic", "create", "b\udcff"),
        ("consume", "b\udcff", "-e"),
        ("group", "describe", "g\udcff"),
        ("kafka-topics", "--create", "--topic", "b\udcff"),
    ],
)
def test_names_that_are_not_utf_8_are_refused_in_one_line(ottla: Ottla, arguments: tuple[str, ...]) -> None:
    done = ottla(*arguments)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert r"\xff" in done.stderr
    assert "UTF-8" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("consume", "{}", "--from", "²", "-e"),
        ("consume", "{}", "--from", "-²", "-e"),
        ("group", "reset", "{}", "--to", "²", "-t", "{}"),
        ("group", "reset", "{}", "--to", "-²m", "-t", "{}"),
        ("kafka-console-consumer", "--topic", "{}", "--partition", "0", "--offset", "²"),
    ],
)
def test_digits_that_make_no_number_are_refused(ottla: Ottla, name: str, arguments: tuple[str, ...]) -> None:
    ottla("topic", "create", name)
    done = ottla(*(word.format(name) for word in arguments))
    assert done.returncode in (1, 2)
    assert "²" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("topic", "create", "{}-new", "-r", "99999"),
        ("topic", "create", "x" * 100_000),
        ("features", "upgrade", "group.version=99999"),
        ("kafka-get-offsets", "--topic", "{}", "--time", "9" * 20),
        ("kafka-topics", "--create", "--topic", "{}-new", "--replica-assignment", "99999999999"),
        ("kafka-console-consumer", "--topic", "{}", "--partition", "0", "--offset", "9" * 20, "--timeout-ms", "1000"),
    ],
)
def test_numbers_that_no_request_can_hold_are_refused_in_one_line(
    ottla: Ottla, name: str, arguments: tuple[str, ...]
) -> None:
    ottla("topic", "create", name)
    done = ottla(*(word.format(name) for word in arguments))
    assert done.returncode in (1, 2)
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) <= 2, done.stderr


@pytest.mark.parametrize("arguments", ["--help", "--version", "topic list -b {}", "consume {} -n 1 -b {}"])
@pytest.mark.parametrize("closed", ["| true", ">&-", "<&- >&-"])
def test_a_closed_output_or_input_is_no_traceback(
    bootstrap: str, ottla: Ottla, name: str, arguments: str, closed: str
) -> None:
    ottla("produce", name, "one")
    words = arguments.replace("consume {}", f"consume {name} --from beginning").format(bootstrap)
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m ottla.cli.main {words} {closed}"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_a_closed_input_has_no_records(bootstrap: str, ottla: Ottla, name: str) -> None:
    ottla("topic", "create", name)
    for command in (f"produce {name} -b", f"kafka-console-producer --topic {name} --bootstrap-server"):
        done = subprocess.run(
            ["bash", "-c", f"{sys.executable} -m ottla.cli.main {command} {bootstrap} <&-"],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert (done.returncode, "Traceback" in done.stderr) == (0, False)


BUFFERED = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
"""Output is written when it is flushed, as users have it."""


@pytest.mark.parametrize("arguments", ["--help", "topic list -b {}", "kafka-topics --list --bootstrap-server {}"])
def test_an_output_that_takes_no_more_is_one_line(bootstrap: str, ottla: Ottla, name: str, arguments: str) -> None:
    ottla("topic", "create", name)
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m ottla.cli.main {arguments.format(bootstrap)} > /dev/full"],
        capture_output=True, text=True, timeout=60, check=False, env=BUFFERED,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "ottla: No space left on device\n")


def test_the_end_of_kafkas_tools_is_quiet_where_nobody_reads() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "ottla.cli.main", "kafka-topics", "--version"]
    done = subprocess.run(
        command, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=60, check=False, env=BUFFERED
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_terminal_that_lacks_a_character_is_shown_its_number(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ottla.cli.main", "shims", str(tmp_path / "→")],
        capture_output=True, text=True, timeout=60, check=False, env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert r"\u2192" in done.stdout


@pytest.mark.parametrize(
    ("module", "arguments", "extra"),
    [("urllib3", ["schema", "list"], "registry"), ("pyarrow", ["lake", "status", "--to", "x"], "lake")],
)
def test_a_library_that_is_not_installed_is_named_with_the_command_that_brings_it(module, arguments, extra):
    program = (
        f"import sys; sys.modules[{module!r}] = None; from ottla.cli.main import main; sys.exit(main({arguments}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1
    assert module in done.stderr and f"pip install 'ottla[{extra}]'" in done.stderr
