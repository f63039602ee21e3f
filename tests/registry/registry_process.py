"""`ottla registry start` as a separate process for tests, which can be made to die at a certain point."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType

SOURCE = Path(__file__).resolve().parents[2] / "src"
_BEFORE_READ_BACK = """
import os, signal
from ottla.jobs import state_topic
async def die(self, offset):
    os.kill(os.getpid(), signal.SIGKILL)
state_topic.StateTopic._read_back = die
"""


class RegistryProcess:
    """Starts at once; `url` is set once it is ready. A context manager that kills the process at the end."""

    def __init__(self, bootstrap: str, topic: str, *, dies_before_read_back: bool = False) -> None:
        arguments = ["start", "-b", bootstrap, "--port", "0", "--topic", topic]
        program = "from ottla.cli.registry import command; import sys; sys.exit(command(sys.argv[1:]))"
        if dies_before_read_back:
            program = _BEFORE_READ_BACK + program
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, *arguments],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("ottla registry ready: "), line
        self.url = line.split()[3]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(120)

    def stop(self) -> int:
        """Ask it to stop; return the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(120)

    def __enter__(self) -> RegistryProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.kill()
        assert self.process.stdout is not None
        self.process.stdout.close()
