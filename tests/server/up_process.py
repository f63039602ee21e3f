"""`ottla cluster up` as a process, for tests that look at its brokers and end it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from cluster_processes import until


class Up:
    """A running `ottla cluster up`."""

    def __init__(self, directory: Path, *options: str, out: int = subprocess.PIPE) -> None:
        self.directory = directory
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ottla", "cluster", "up", "--data", str(directory), *options],
            stdout=out,
            stderr=subprocess.STDOUT if out == subprocess.PIPE else subprocess.DEVNULL,
            text=True,
        )

    def brokers(self) -> dict[int, dict]:
        """The brokers that cluster.json lists now."""
        path = self.directory / "cluster.json"
        return {each["id"]: each for each in json.loads(path.read_text())["brokers"]} if path.exists() else {}

    def wait_for_all(self, brokers: int = 3) -> str:
        """Wait until as many brokers serve; return their addresses. Fail with the output of a command that ended."""
        until(lambda: self.process.poll() is not None or len(self.brokers()) == brokers)
        if self.process.poll() is not None:
            output, _ = self.process.communicate()
            raise AssertionError(f"`ottla cluster up` ended with {self.process.returncode} in its start:\n{output}")
        return ",".join(f"{each['host']}:{each['port']}" for each in self.brokers().values())

    def end(self, number: signal.Signals = signal.SIGINT) -> tuple[int, str]:
        self.process.send_signal(number)
        output, _ = self.process.communicate(timeout=60)
        return self.process.returncode, output

    def __enter__(self) -> Up:
        return self

    def __exit__(self, *exception: object) -> None:
        if self.process.poll() is None:
            self.process.kill()  # the brokers go with it
            self.process.wait()


def alive(pid: int) -> bool:
    """True if a process runs; one that has ended and was not waited for does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
