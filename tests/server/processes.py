"""A real `ottla start` as a process of its own, for tests that kill it."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path


class OttlaProcess:
    """Starts in `with` or by `start`; `kill` is SIGKILL, `stop` is SIGTERM. It keeps its port over restarts."""

    def __init__(self, directory: Path | None, *options: str) -> None:
        """`directory` is None if the options name the data directory."""
        self.directory = directory
        self.options = options
        self.source: Path | None = None
        """The folder to import the package from, if not the one that this test uses."""
        self.process: subprocess.Popen[str] | None = None
        self.address = ""
        self.errors = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - lives as long as the broker
        fcntl.fcntl(self.errors, fcntl.F_SETFL, os.O_APPEND)  # `log` moves the position, which the broker shares

    def start(self) -> OttlaProcess:
        data = [] if self.directory is None else ["--data", str(self.directory)]
        arguments = [*data, "--port", "0", "--http-port", "0", *self.options]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ottla", "start", *arguments],
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"} | self._path(),
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if " ready: " not in line:
            self.process.wait(timeout=120)
            raise RuntimeError(f"the broker did not start: {self.log()}")
        self.address = line.split(" ready: ")[1].strip()
        return self

    def _path(self) -> dict[str, str]:
        return {} if self.source is None else {"PYTHONPATH": str(self.source)}

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

    def __enter__(self) -> OttlaProcess:
        return self.start()

    def __exit__(self, *exception: object) -> None:
        if self.process is not None and self.process.poll() is None:
            self.stop()
        self.errors.close()
