"""`ottla lake load` as a person runs it."""

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ottla.lake.commands.load import _stop_on_signals, command
from ottla.records.reader import Record

pytestmark = [pytest.mark.spark, pytest.mark.slow]

NEW_YEAR = 1_356_998_400_000


def started(*arguments):
    code = "import sys; from ottla.lake.commands.load import command; sys.exit(command(sys.argv[1:]))"
    return subprocess.Popen(
        [sys.executable, "-c", code, "load", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.mark.parametrize("on", ["local", "spark"])
def test_ctrl_c_ends_after_the_round_at_work_with_the_table(topics, bootstrap, tmp_path, on):
    topic = topics.new()
    topics.fill(topic, 0, [Record(0, NEW_YEAR, None, b"x") for _ in range(10)])
    process = started(topic, "--to", str(tmp_path / "lake"), "-b", bootstrap, "--continuous", "--on", on)
    lines = []
    while not any(line.startswith("round 0") for line in lines):
        lines.append(process.stderr.readline())
        assert process.poll() is None, lines
    os.killpg(process.pid, signal.SIGINT)  # a terminal sends it to the whole group
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert "stopping after this round" in err
    assert "KeyboardInterrupt" not in err and "src/ottla/" not in err  # Spark itself may say of a closed socket
    assert re.search(rf"{topic} +0 +0-10 +10 +10", out) and "adds up" in out


def test_a_load_that_succeeds_prints_nothing_of_sparks_and_names_its_phases(topics, bootstrap, tmp_path):
    topic = topics.new()
    topics.fill(topic, 0, [Record(0, NEW_YEAR, None, b"x") for _ in range(10)])
    process = started(topic, "--to", str(tmp_path / "lake"), "-b", bootstrap, "--on", "spark")
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    lines = [line for line in err.splitlines() if not line.startswith("warning: ")]  # its records are old
    assert lines[0] == "starting Spark" and lines[-1].startswith("round 0: 10 records into 1 file (")
    assert all(line.startswith("round 0: ") for line in lines[1:])
    assert out.splitlines()[0].startswith("topic ") and len(out.splitlines()) == 3


def test_without_java_a_load_says_what_to_install(topics, bootstrap, tmp_path, monkeypatch):
    topic = topics.new()
    topics.fill(topic, 0, [Record(0, NEW_YEAR, None, b"x")])
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    process = started(topic, "--to", str(tmp_path / "lake"), "-b", bootstrap, "--on", "spark")
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (1, "")
    first, last = (line for line in err.splitlines() if not line.startswith("warning: "))
    assert first == "starting Spark" and last.startswith("ottla lake load: Spark needs a Java runtime of version 17")


def test_the_end_of_sparks_java_process_is_said_in_a_sentence(topics, bootstrap, tmp_path):
    topic = topics.new()
    topics.fill(topic, 0, [Record(0, NEW_YEAR, None, b"x") for _ in range(10)])
    process = started(topic, "--to", str(tmp_path / "lake"), "-b", bootstrap, "--continuous", "--on", "spark")
    while not (line := process.stderr.readline()).startswith("round 0"):
        assert process.poll() is None, line
    os.kill(java_of(process.pid), signal.SIGKILL)
    topics.fill(topic, 0, [Record(0, NEW_YEAR, None, b"y")])
    _, err = process.communicate(timeout=120)
    assert process.returncode == 1, err
    assert err.splitlines()[-1] == ("ottla lake load: Spark's Java process ended; the next load does this round over")


def java_of(pid):
    """The Java process that a Python process has started."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return next(int(child) for child in children if Path(f"/proc/{child}/comm").read_text().strip() == "java")


def test_a_signal_in_the_moment_that_the_loader_begins_to_wait_stops_it():
    stop = threading.Event()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        _stop_on_signals(stop)
        with stop._cond:  # as Event.wait does for a moment
            signal.raise_signal(signal.SIGTERM)
        assert stop.wait(60)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_what_is_missing_is_said_before_spark_is_started(bootstrap, tmp_path, capsys):
    assert command(["load", "no-such-topic", "--to", str(tmp_path / "lake"), "-b", bootstrap]) == 1
    assert "there is no topic no-such-topic" in capsys.readouterr().err
    assert command(["load", "--pattern", "no-such.*", "--to", str(tmp_path / "lake"), "-b", bootstrap]) == 0
    said = capsys.readouterr()
    assert "no topic matches no-such.* yet" in said.err and "nothing new" in said.out
    assert not list(tmp_path.glob("lake/topic=*"))


@pytest.mark.parametrize("place", ["s4://bucket/prod", "gopher://host/x"])
def test_a_place_that_nobody_knows_is_refused(topics, bootstrap, tmp_path, capsys, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    assert command(["load", topics.new(), "--to", place, "-b", bootstrap]) == 1
    assert "a lake cannot lie on" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
