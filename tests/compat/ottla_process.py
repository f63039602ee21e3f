"""A real `ottla start` in a process of its own, on a free port and in a temporary directory; our tools beside it."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

START = "import sys; from ottla.server.main import command; sys.exit(command(sys.argv[1:]))"
SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "5"}
"""The same as in `apache_kafka.py`, so that both sides of a comparison wait alike."""
_READY_S = 300.0


class OttlaFailed(Exception):
    """The broker did not start, or did not stop cleanly; the text has its last words."""


class OttlaProcess:
    """Use as a context manager. `settings` are broker options in Kafka's names."""

    def __init__(self, settings: Mapping[str, str] | None = None, *, folder: Path | None = None) -> None:
        self.folder = folder or Path(tempfile.mkdtemp(prefix="ottla-"))
        self.settings = {**SETTINGS, **(settings or {})}
        self.output = self.folder / "server.log"
        self.bootstrap = ""
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> OttlaProcess:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> OttlaProcess:
        """Start the broker; return once it has printed that it is ready."""
        self.folder.mkdir(parents=True, exist_ok=True)
        options = ["--data", str(self.folder / "data"), "--port", "0", "--http-port", "0"]
        for name, value in self.settings.items():
            options += ["--set", f"{name}={value}"]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("KAFKA_")}
        with self.output.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", START, *options], stdout=subprocess.PIPE, stderr=log, env=environment
            )
        self.bootstrap = self._ready_line().rpartition(" ")[2]
        return self

    def stop(self, *, keep: bool = False) -> None:
        """End the broker by SIGTERM, which must be clean; remove its folder unless `keep`."""
        process, self._process = self._process, None
        status = 0
        if process is not None:
            process.send_signal(signal.SIGTERM)
            try:
                status = process.wait(120)
            except subprocess.TimeoutExpired:
                process.kill()
                status = process.wait()
            if process.stdout is not None:
                process.stdout.close()
        words = self.last_words()
        if not keep:
            shutil.rmtree(self.folder, ignore_errors=True)
        if status != 0:
            raise OttlaFailed(f"the broker ended with {status}:\n{words}")

    def last_words(self) -> str:
        return self.output.read_text(errors="replace")[-6000:] if self.output.exists() else ""

    def _ready_line(self) -> str:
        assert self._process is not None and self._process.stdout is not None
        stdout = self._process.stdout
        deadline = time.monotonic() + _READY_S
        line = b""
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([stdout], [], [], max(0.0, deadline - time.monotonic()))
            more = os.read(stdout.fileno(), 4096) if ready else b""
            if not more:
                self._process.kill()
                self._process.wait()
                raise OttlaFailed(f"the broker said nothing:\n{self.last_words()}")
            line += more
        return line.decode().strip()


def run_our_tool(name: str, arguments: Sequence[str], *, input_text: str = "") -> subprocess.CompletedProcess[str]:
    """Run one of our command-line tools against whatever its arguments name."""
    return subprocess.run(
        [sys.executable, "-m", "ottla.cli.main", name, *arguments],
        input=input_text,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
