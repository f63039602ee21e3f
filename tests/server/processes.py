"""A real `ottla start` as a process of its own, for tests that kill it, and for clients and tools of others."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Self

from tests.forked_program import ForkedProgram

READY_WITHIN_S = 300.0


def as_options(settings: Mapping[str, str]) -> tuple[str, ...]:
    """Broker options in Kafka's names as words of the command line."""
    return tuple(word for name, value in settings.items() for word in ("--set", f"{name}={value}"))


class DidNotStart(RuntimeError):
    """A broker ended before it served; the text has its last words."""


class OttlaProcess:
    """Starts in `with` or by `start`; `kill` is SIGKILL, `stop` is SIGTERM. It keeps its port over restarts."""

    def __init__(self, directory: Path | None, *options: str) -> None:
        """`directory` is None if the options name the data directory."""
        self.directory = directory
        self.options = options
        self.source: Path | None = None
        """The folder to import the package from, if not the one that this test uses."""
        self.process: subprocess.Popen[str] | ForkedProgram | None = None
        self.output: IO[str] | None = None
        self.address = ""
        self.errors = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - lives as long as the broker
        fcntl.fcntl(self.errors, fcntl.F_SETFL, os.O_APPEND)  # `log` moves the position, which the broker shares

    def start(self) -> Self:
        """Start the broker; return once it has printed that it is ready."""
        data = [] if self.directory is None else ["--data", str(self.directory)]
        http = [] if "--http-port" in self.options else ["--http-port", "0"]
        port = [] if any(word.startswith("listeners=") for word in self.options) else ["--port", "0"]
        arguments = [*data, *port, *http, *self.options]
        said, output = os.pipe()
        self.output = os.fdopen(said)
        try:
            self.process = self._process(["start", *arguments], output)
        finally:
            os.close(output)
        line = self._first_line()
        if " ready: " not in line:
            self.process.wait(timeout=120)
            raise DidNotStart(f"the broker did not start: {self.log()}")
        self.address = line.split(" ready: ")[1].strip()
        return self

    def _process(self, arguments: list[str], output: int) -> subprocess.Popen[str] | ForkedProgram:
        """A fork of the program; a process from its beginning if the package comes from elsewhere."""
        errors, environment = self.errors.fileno(), self._environment()
        if self.source is None:
            return ForkedProgram(arguments, 0, output, errors, environment)
        command = [sys.executable, "-m", "ottla", *arguments]
        return subprocess.Popen(command, stdout=output, stderr=errors, text=True, env=environment)

    def _environment(self) -> dict[str, str]:
        return {**os.environ} | ({} if self.source is None else {"PYTHONPATH": str(self.source)})

    def _first_line(self) -> str:
        """The first line of the broker's output; empty if it ended, or said nothing in time and was killed."""
        assert self.process is not None and self.output is not None
        ready, _, _ = select.select([self.output], [], [], READY_WITHIN_S)
        if not ready:
            self.process.kill()
        return self.output.readline()

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def bootstrap_servers(self) -> str:
        return self.address

    def log(self) -> str:
        self.errors.seek(0)
        return self.errors.read()

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=120)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exception: object) -> None:
        if self.running:
            self.stop()
        self.close()

    def close(self) -> None:
        """Close the files of a broker that has ended, or was not started."""
        if self.output is not None:
            self.output.close()
        self.errors.close()
