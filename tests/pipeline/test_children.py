"""A part's process: its lines come through whatever their length, and its end is told with the last of them."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from ottla.jobs.running_async import AsyncJobRun
from ottla.pipeline.children import Child, PartEnded, fault_of


def run(program: str, folder: Path) -> tuple[list[str], Child]:
    said: list[str] = []
    child = Child("part", [sys.executable, "-c", program], folder, lambda _, line: said.append(line), ready=["broker"])
    asyncio.run(child.work(AsyncJobRun(lambda: said.append("began"))))
    return said, child


def test_a_line_of_any_length_comes_through(tmp_path: Path) -> None:
    said, _ = run("print('x' * 1_000_000); print('after')", tmp_path)
    assert sum(map(len, said)) == 1_000_000 + len("after")
    assert said[-1] == "after"


def test_a_program_is_ready_when_it_says_where_it_listens(tmp_path: Path) -> None:
    said, child = run("print('starting'); print('ottla 0.1.0 ready: localhost:9092 and more')", tmp_path)
    assert said == ["starting", "began", "ottla 0.1.0 ready: localhost:9092 and more"]
    assert child.addresses == {"broker": "localhost:9092"}


@pytest.mark.parametrize(("code", "may_pass"), [(1, True), (2, False)])
def test_a_failure_has_the_last_line_and_a_refused_command_line_stays_refused(
    code: int, may_pass: bool, tmp_path: Path
) -> None:
    with pytest.raises(PartEnded, match=f"ended with exit status {code}: the reason") as failed:
        run(f"import sys; print('the reason'); sys.exit({code})", tmp_path)
    assert fault_of(failed.value).may_pass is may_pass
