"""`ottla mirror start` as a process of its own, for tests that kill it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Self


class MirrorProgram:
    """A context manager that kills the program at the end if it still runs; `start` may be called again."""

    def __init__(self, log: Path, *arguments: str) -> None:
        self._command = [sys.executable, "-m", "ottla", "mirror", "start", *arguments]
        self._log = log
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.kill()

    def start(self) -> None:
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(self._command, stdout=log, stderr=log)

    def kill(self) -> None:
        """End it by SIGKILL."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """Have it end: what is under way lands, and places are kept."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=60)

    def last_words(self) -> str:
        return self._log.read_text(errors="replace")[-3000:]
