"""The processes of a campaign: a broker that comes back on its port, and loaders of which any part can be killed."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

PATIENCE_S = 240
_STEP_S = 0.05


class Stuck(Exception):
    """A condition did not hold within the time allowed."""


def until(holds: Callable[[], object], what: str, patience_s: float = PATIENCE_S) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + patience_s
    while not holds():
        if time.monotonic() > deadline:
            raise Stuck(f"{what}: not within {patience_s:.0f} s")
        time.sleep(_STEP_S)


class BrokerProcess:
    """`ottla start` with its data in a folder."""

    def __init__(self, folder: Path, port: int) -> None:
        self.bootstrap = f"127.0.0.1:{port}"
        self._ready, self._log = folder / "broker.ready", folder / "broker.log"
        where = ["--data", str(folder / "broker"), "--port", str(port), "--http-port", "0"]
        where += ["--set", "log.retention.ms=-1"]  # records have old timestamps
        self._command = [sys.executable, "-m", "ottla", "start", *where]
        self.start()

    def start(self) -> None:
        """Start, and return once it is ready."""
        with self._ready.open("wb") as ready, self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=ready, stderr=log, stdin=subprocess.DEVNULL)
        until(self._is_ready, "the broker's start")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def _is_ready(self) -> bool:
        if self._process.poll() is not None:
            raise Stuck(f"the broker ended: {self._log.read_text()[-2000:]}")
        return b" ready: " in self._ready.read_bytes()


class LoaderProcess:
    """`ottla lake load`, in a session of its own, its output in a file."""

    def __init__(self, arguments: Sequence[str], environment: dict[str, str], log: Path) -> None:
        self.log = log
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "ottla", "lake", "load", *arguments],
                stdout=out, stderr=out, stdin=subprocess.DEVNULL, start_new_session=True,
                env={**os.environ, **environment, "OTTLA_LAKE_LEASE_SECONDS": "4"},
            )  # fmt: skip

    @property
    def status(self) -> int | None:
        """Its exit status; None while it runs."""
        return self._process.poll()

    @property
    def rounds(self) -> int:
        """Rounds in its output. A round that it found already written may have been all that there was to load."""
        return len(re.findall(r"^round \d+(: | was written already)", self.log.read_text(), re.MULTILINE))

    def said(self) -> str:
        """Its last line."""
        return (self.log.read_text().strip().splitlines() or ["nothing"])[-1]

    def workers(self) -> list[int]:
        """Spark's Python processes."""
        return [child for child in family(self._process.pid) if "pyspark" in command_of(child)]

    def kill(self, *, everything: bool) -> None:
        """Send SIGKILL to the driver alone, or also to all processes that it has started."""
        descendants = family(self._process.pid)
        self._process.kill()
        if everything:
            for pid in descendants:
                kill(pid)
        self._process.wait()

    def stop(self) -> int:
        """Ask it to end after its round; return the exit status."""
        self._process.terminate()
        return self.wait()

    def wait(self) -> int:
        """Wait for its exit status; the timeout restarts with each output, such as that of a large load's rounds."""
        said = -1
        while self._process.poll() is None:
            now_said = self.log.stat().st_size
            if now_said == said:
                self.kill(everything=True)
                raise Stuck(f"a loader said nothing for {PATIENCE_S} s: {self.said()}")
            said = now_said
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(PATIENCE_S)
        return self._process.returncode


def family(pid: int) -> list[int]:
    """All descendants of a process."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            child = int(status.parent.name)
            found += [child, *family(child)]
    return found


def command_of(pid: int) -> str:
    """The command line of a process; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def kill(pid: int) -> None:
    """Send SIGKILL; no error if the process has ended."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
