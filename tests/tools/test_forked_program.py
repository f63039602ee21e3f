"""Tests that a forked `ottla` says and does what a process of its own says and does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.forked_program import ForkedProgram, run_program


@pytest.mark.parametrize("words", [["--version"], ["topic", "list", "-b", "localhost:1"], ["nonsense"], ["shims", "."]])
def test_a_fork_says_what_a_process_says_and_ends_as_it_does(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    process = subprocess.run([sys.executable, "-m", "ottla", *words], capture_output=True, check=False)
    for shim in tmp_path.iterdir():
        shim.unlink()
    fork = run_program(words)
    assert (fork.returncode, fork.stdout, fork.stderr) == (process.returncode, process.stdout, process.stderr)


def test_a_fork_is_killed_and_says_by_which_signal() -> None:
    stdin, given = os.pipe()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        program = ForkedProgram(["produce", "t", "-b", "localhost:1"], stdin, nowhere, nowhere)
        assert program.poll() is None
        program.kill()
        assert program.wait(60) == -9
        program.kill()
    finally:
        for end in (stdin, given, nowhere):
            os.close(end)


@pytest.mark.parametrize(("name", "value"), [("PYTHONHASHSEED", "7"), ("LD_PRELOAD", "none.so")])
def test_a_variable_that_counts_when_python_starts_is_refused(name: str, value: str) -> None:
    with pytest.raises(AssertionError, match=name):
        run_program(["--version"], environment={**os.environ, name: value})
