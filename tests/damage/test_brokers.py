"""Tests of the rig: stderr as lines with levels, ports of copies, and file modes that bind root too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.damage.brokers import LAUNCH, OBEY_MODES, Brokers, said_on_stderr, until
from tests.damage.values import Line
from tests.forked_program import run_program


def test_lines_of_the_log_have_their_levels_and_carry_their_exceptions() -> None:
    text = (
        '{"time": "t", "level": "info", "logger": "ottla", "message": "serves"}\n'
        '{"time": "t", "level": "error", "logger": "ottla", "message": "failed", "exception": "KeyError: 1"}\n'
    )
    assert said_on_stderr(2, text) == [Line(2, "info", "serves"), Line(2, "error", "failed\nKeyError: 1")]


def test_what_is_said_outside_of_the_log_is_a_warning_or_an_error_and_the_greeting_is_neither() -> None:
    text = "ottla: warning: the port file is damaged\n  data      /d\nottla: cannot start: no\n"
    assert said_on_stderr(1, text) == [
        Line(1, "warning", "ottla: warning: the port file is damaged"),
        Line(1, "error", "ottla: cannot start: no"),
    ]


def test_a_traceback_is_one_line() -> None:
    text = 'Traceback (most recent call last):\n  File "x.py", line 1\nKeyError: 1\n'
    (line,) = said_on_stderr(1, text)
    assert line.level == "error"
    assert line.text.endswith("KeyError: 1")


def test_copies_of_one_folder_listen_on_other_ports(tmp_path: Path) -> None:
    found = set()
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        Brokers(tmp_path / name, 3).give_ports()
        found |= {(tmp_path / name / f"broker-{number}" / "port").read_text() for number in (1, 2, 3)}
    assert len(found) == 6


def test_a_file_without_rights_cannot_be_read_by_what_the_launcher_starts(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x")
    path.chmod(0)
    command = [sys.executable, "-c", f"open({str(path)!r})"]
    if os.geteuid() == 0:
        command = [sys.executable, "-I", "-S", "-c", LAUNCH, *command]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "PermissionError" in ended.stderr


def test_nor_can_it_be_by_a_program_that_is_forked(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x")
    path.chmod(0)
    ran = run_program(["start", "--config", str(path)], before=OBEY_MODES)
    assert (ran.returncode, b"Permission denied" in ran.stderr) == (2, True), ran.stderr


def test_a_condition_is_waited_for_and_no_longer_than_allowed() -> None:
    looks = iter([False, False, True])
    assert until(lambda: next(looks), within_s=60, step_s=0)
    assert not until(lambda: False, within_s=0)
