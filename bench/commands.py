"""Measures how soon commands answer and a test's broker starts, beside an empty Python: `python -m bench.commands`.

Each runs five times, the commands against a broker in this process; the least wall and processor times count. A test's
first broker should take less than 0.5 s of processor time with all imports, and the next less than 0.1 s.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

from ottla.lake.reports.counts import aligned
from ottla.testing import TestBroker

_RUNS = 5
_FIRST_BROKER = "from ottla.testing import TestBroker; TestBroker().start().stop()"


def main() -> int:
    with TestBroker() as broker:
        at = broker.bootstrap_servers
        program = ["-m", "ottla.cli.main"]
        _seconds([*program, "produce", "t", "one", "two", "-b", at])
        rows = [("command", "wall s", "processor s")]
        for arguments in (
            ["-c", ""],
            [*program, "--help"],
            [*program, "topic", "list", "-b", at],
            [*program, "consume", "t", "--from", "beginning", "-e", "-b", at],
            [*program, "group", "list", "-b", at],
            [*program, "doctor", "-b", at],
            [*program, "kafka-topics", "--bootstrap-server", at, "--describe"],
            [*program, "kafka-consumer-groups", "--bootstrap-server", at, "--list"],
        ):
            wall, processor = map(min, zip(*(_seconds(arguments) for _ in range(_RUNS)), strict=True))
            name = " ".join(arguments[2:]) or "an empty Python"
            rows.append((name.replace(at, "BROKER"), f"{wall:.3f}", f"{processor:.3f}"))
    first = map(min, zip(*(_seconds(["-c", _FIRST_BROKER]) for _ in range(_RUNS)), strict=True))
    following = map(min, zip(*(_next_broker() for _ in range(_RUNS)), strict=True))
    for name, times in (("a test's first broker, imports and end included", first), ("its next broker", following)):
        rows.append((name, *(f"{each:.3f}" for each in times)))
    print("\n".join(aligned(rows)))
    return 0


def _next_broker() -> tuple[float, float]:
    began, began_busy = time.monotonic(), time.process_time()
    with TestBroker():
        return time.monotonic() - began, time.process_time() - began_busy


def _seconds(arguments: list[str]) -> tuple[float, float]:
    before, began = os.times(), time.monotonic()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wall, after = time.monotonic() - began, os.times()
    return wall, after.children_user - before.children_user + after.children_system - before.children_system


if __name__ == "__main__":
    sys.exit(main())
