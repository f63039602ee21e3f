"""Fetches and runs the programs of a compatibility suite, and reads their results.

Everything fetched comes through the ordinary clients of npm and pip, and stays under .cache/compat.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache" / "compat"
_LAST_WORDS_S = 60

Results = dict[str, "Result"]


class SuiteFailed(Exception):
    """A suite could not be fetched, built or run at all."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one test: `state` is passed, failed or skipped; `said` is the reason, in one line."""

    state: str
    said: str = ""


def execute(
    command: Sequence[str], *, log: Path, cwd: Path = ROOT, timeout: float, env: Mapping[str, str] | None = None
) -> int:
    """Run with all output in the log; return the status, or 124 if time ran out. Nothing that it started runs on."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            list(command), stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=cwd,
            env={**os.environ, **(env or {})}, start_new_session=True,
        )  # fmt: skip
        try:
            return process.wait(timeout)
        except subprocess.TimeoutExpired:
            interrupt(process)
            return 124
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def interrupt(process: subprocess.Popen[bytes]) -> None:
    """Have a program end by SIGINT, and give it a minute: pytest reports the tests that have ended."""
    process.send_signal(signal.SIGINT)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_LAST_WORDS_S)


def must(command: Sequence[str], *, log: Path, cwd: Path = ROOT, timeout: float = 1800) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    if execute(command, log=log, cwd=cwd, timeout=timeout):
        raise SuiteFailed(f"{' '.join(command)} failed:\n{log.read_text(errors='replace')[-1500:]}")


def unpack(archive: Path, home: Path) -> None:
    """Extract an archive without the one folder that holds everything."""
    inside = home.with_name(home.name + ".new")
    shutil.rmtree(inside, ignore_errors=True)
    with tarfile.open(archive) as packed:
        packed.extractall(inside, filter="data")
    next(inside.iterdir()).rename(home)
    inside.rmdir()


def from_junit(report: Path) -> Results:
    """Results by `file::test[parameters]`, without the parameter that says which broker."""
    if not report.exists():
        return {}
    results: Results = {}
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        name = case.attrib["name"].replace("[given-", "[").replace("[given]", "")
        key = f"{case.attrib['classname'].rpartition('.')[2]}::{name}"
        fault = case.find("failure") if case.find("failure") is not None else case.find("error")
        skip = case.find("skipped")
        if fault is not None:
            results[key] = Result("failed", one_line(fault.attrib.get("message", "")))
        elif skip is not None:
            results[key] = Result("skipped", one_line(skip.attrib.get("message", "")))
        else:
            results[key] = Result("passed")
    return results


def one_line(text: str) -> str:
    """The beginning of a text on one line, with paths as they are in this tree."""
    return " ".join(text.replace(f"{ROOT}/", "").split())[:200]
