"""Broker processes over one folder: `broker-1`, `broker-2`... and, for several brokers, their `store`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.damage.values import Line, Start
from tests.forked_program import ForkedProgram
from tests.ports import free_ports

STEP_S = 0.02
READY_WITHIN_S = 60
STOPS_WITHIN_S = 40
_OPTIONS = {
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",
    "log.cleaner.backoff.ms": "300",
    "log.retention.check.interval.ms": "500",
    "log.segment.delete.delay.ms": "100",
    "offsets.topic.num.partitions": "1",
    "replica.high.watermark.checkpoint.interval.ms": "200",
    "transaction.state.log.num.partitions": "1",
}
_SCRUBS = {"ottla.scrub.interval.hours": "0.0004"}
"""A pass every other second, each in processes of its own: they take half of the time of a campaign."""
_OF_SEVERAL = {"min.insync.replicas": "2"}
"""With at least two of three in sync, any one broker may be missing, also after a clean stop."""
OBEY_MODES = "tests.damage.rights:obey_modes"
"""The function that a forked program calls first; a process of its own gets the same by `LAUNCH`."""
LAUNCH = """
import ctypes, os, sys
PR_CAPBSET_DROP = 24
for right in (1, 2):  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH: root obeys modes
    ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, right, 0, 0, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


def until(holds: Callable[[], object], within_s: float, step_s: float = STEP_S) -> bool:
    """Wait for a condition; True if it came to hold in time."""
    end = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(step_s)
    return True


class BrokerProcess:
    """One `ottla start`, which may refuse to start or end by itself. File modes bind it even as root."""

    def __init__(self, folder: Path, number: int, join: Path | None, *, scrubs: bool) -> None:
        self.number = number
        self.folder = folder
        self._join = [] if join is None else ["--join", f"sqlite:{join}"]
        self.options = _OPTIONS | ({} if join is None else _OF_SEVERAL) | (_SCRUBS if scrubs else {})
        self.environment: dict[str, str] = {}
        """Variables of its environment besides those of this process."""
        self._out = folder / f"broker-{number}.out"
        self._err = folder / f"broker-{number}.err"
        self.process: subprocess.Popen[bytes] | ForkedProgram | None = None

    def spawn(self) -> None:
        options = [word for pair in self.options.items() for word in ("--set", "=".join(pair))]
        arguments = ["start", "--id", str(self.number), "--port", "0", "--http-port", "0"]
        arguments += ["--data", str(self.folder / f"broker-{self.number}"), "--log-format", "json"]
        with self._out.open("wb") as out, self._err.open("ab") as err:
            self.process = self._process([*arguments, *self._join, *options], out.fileno(), err.fileno())

    def _process(self, arguments: list[str], out: int, err: int) -> subprocess.Popen[bytes] | ForkedProgram:
        """A fork of the program; a process from its beginning if its environment counts there."""
        environment = {**os.environ, **self.environment}
        if not self.environment:
            return ForkedProgram(arguments, 0, out, err, environment, before=OBEY_MODES)
        launcher = [sys.executable, "-I", "-S", "-c", LAUNCH] if os.geteuid() == 0 else []
        command = [*launcher, sys.executable, "-m", "ottla", *arguments]
        return subprocess.Popen(command, stdout=out, stderr=err, env=environment, start_new_session=True)

    def settle(self) -> Start:
        """Wait until it is ready or has ended."""
        until(lambda: self.address or not self.running, READY_WITHIN_S)
        if self.address:
            return Start.READY
        return Start.HUNG if self.running else Start.ENDED

    @property
    def address(self) -> str:
        """The broker's address; empty before it is ready."""
        said = self._out.read_text(errors="replace") if self._out.exists() else ""
        return said.split(" ready: ")[1].split()[0] if " ready: " in said and said.endswith("\n") else ""

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def stop(self) -> int | None:
        """Send SIGTERM; return the exit status, or None if it had to be killed."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        if until(lambda: not self.running, STOPS_WITHIN_S):
            return self.process.returncode
        self.kill()
        return None

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def lines(self) -> list[Line]:
        """All lines of its stderr. Other lines than log lines count as errors, except for the greeting."""
        text = self._err.read_text(errors="replace") if self._err.exists() else ""
        return said_on_stderr(self.number, text)


def said_on_stderr(number: int, text: str) -> list[Line]:
    """The lines of a broker's stderr; a traceback is one line."""
    found: list[Line] = []
    for raw in text.splitlines():
        if raw.startswith('{"time"'):
            entry = json.loads(raw)
            trace = f"\n{entry['exception']}" if "exception" in entry else ""
            found.append(Line(number, entry["level"], entry["message"] + trace))
        elif raw.startswith("Traceback"):
            found.append(Line(number, "error", raw))
        elif raw.startswith("ottla: "):
            found.append(Line(number, "warning" if raw.startswith("ottla: warning:") else "error", raw))
        elif found and "Traceback" in found[-1].text and found[-1].level == "error":
            found[-1] = found[-1]._replace(text=f"{found[-1].text}\n{raw}")
    return found


class Brokers:
    """All brokers of a folder. Without `scrubs` their log is scrubbed once a week, as it is by default."""

    def __init__(self, folder: Path, count: int, *, scrubs: bool = True) -> None:
        self.folder = folder
        join = folder / "store" if count > 1 else None
        self.of = {number: BrokerProcess(folder, number, join, scrubs=scrubs) for number in range(1, count + 1)}

    def give_ports(self) -> None:
        """Give each broker a free port: all copies of a folder name the same ports."""
        for number, port in zip(self.of, free_ports(len(self.of)), strict=True):
            directory = self.folder / f"broker-{number}"
            directory.mkdir(exist_ok=True)
            (directory / "port").write_text(f"127.0.0.1:{port}\n")

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.address for broker in self.of.values() if broker.running and broker.address)

    def start(self, *numbers: int) -> dict[int, Start]:
        """Start the given brokers, or all, at the same time."""
        chosen = numbers or tuple(self.of)
        for number in chosen:
            self.of[number].spawn()
        return {number: self.of[number].settle() for number in chosen}

    def stop(self) -> dict[int, int | None]:
        """Stop all running brokers by SIGTERM, one after the other."""
        return {number: broker.stop() for number, broker in self.of.items() if broker.running}

    def kill(self) -> None:
        for broker in self.of.values():
            if broker.process is not None:
                broker.process.kill()
        for broker in self.of.values():
            broker.kill()

    def lines(self) -> list[Line]:
        return [line for broker in self.of.values() for line in broker.lines()]
