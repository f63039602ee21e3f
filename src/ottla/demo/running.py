"""A broker in an empty folder, as a process of its own, for as long as the demo lasts."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

READY = " ready: "


@contextlib.contextmanager
def broker(folder: Path) -> Iterator[str]:
    """`ottla start` on a free port; yields the address that its one line names, and stops it afterwards."""
    folder.mkdir(parents=True)
    log_path = folder.with_suffix(".log")
    command = [ottla(), "start", "--data", str(folder), "--port", "0", "--http-port", "0"]
    with log_path.open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if READY not in line:
            raise RuntimeError(f"the broker did not start; its words are in {log_path}")
        yield line.rpartition(READY)[2].strip()
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def ottla() -> str:
    """The command beside the Python that runs this."""
    return str(Path(sys.executable).with_name("ottla"))
