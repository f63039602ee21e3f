"""One broker of a local cluster as a child process: started, watched, restarted, stopped.

supervisor.py has one for each broker. A child gets a session of its own, so that Ctrl-C reaches the supervisor alone;
and the kernel tells it to stop if the supervisor dies.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

READY = " ready: "
SLOW_START_S = 120.0
STOP_WITHIN_S = 30.0
FIRST_BACK_OFF_S = 0.5
LONGEST_BACK_OFF_S = 30.0
_STEADY_S = 10.0
"""The time of service after which a broker is restarted without delay, as after a first death."""
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class Launch:
    """The start of one broker."""

    number: int
    data: str
    """Its log directories, with commas between them."""
    arguments: Sequence[str]
    """The words of `ottla start` besides its number and its directories."""


class BrokerChild:
    """`address` and `pid` while it serves; when they change, `tell` gets a sentence and `on_change` is called."""

    def __init__(
        self,
        launch: Launch,
        log_path: str,
        *,
        restarts: bool,
        tell: Callable[[str], None],
        on_change: Callable[[], None],
    ) -> None:
        self.number = launch.number
        self.directory = launch.data.split(",")[0]
        self.log_path = log_path
        self.address: tuple[str, int] | None = None
        self.pid: int | None = None
        self.state = "starting"
        self.preferred_port: int | None = None
        """The port to take if it is free, until the broker has served: then it keeps the port that it has."""
        self._arguments = ["--id", str(launch.number), "--data", launch.data, *launch.arguments]
        self._restarts = restarts
        self._tell = tell
        self._on_change = on_change
        self._process: asyncio.subprocess.Process | None = None
        self._stopping = asyncio.Event()

    async def keep(self) -> None:
        """Run the broker until `stop`, or, if it is not restarted, until it is gone."""
        back_off_s = 0.0
        served_before = False
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                ended = _how(await self._run())
            except OSError as error:  # no process or no file can be had just now
                ended = f"cannot be started ({error.strerror})"
            if self._stopping.is_set():
                break
            served, served_before = self.state == "serving", served_before or self.state == "serving"
            self._set("gone", None)
            self._tell(f"broker {self.number} {ended}" + ("" if served else f": {self._last_line()}"))
            if not self._restarts or not served_before:
                return
            steady = served and time.monotonic() - began > _STEADY_S
            back_off_s = FIRST_BACK_OFF_S if steady else min(max(FIRST_BACK_OFF_S, 2 * back_off_s), LONGEST_BACK_OFF_S)
            self._set("to be restarted", None)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), back_off_s)

    async def _run(self) -> int:
        """One run of the process; its exit status."""
        self._set("starting", None)
        os.makedirs(os.path.dirname(self.log_path), exist_ok=True)
        with open(self.log_path, "ab") as log:
            process = self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "ottla", "start", *self._arguments, *self._preference(),
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=log,
                start_new_session=True, preexec_fn=_die_with_parent,
            )  # fmt: skip
        if self._stopping.is_set():  # requested while the process was being made: `stop` has not seen it
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        assert process.stdout is not None
        line = await self._first_line(process.stdout)
        _, ready, address = line.strip().partition(READY)
        if ready:
            host, _, port = address.rpartition(":")
            self._tell(f"broker {self.number} serves on {address} (process {process.pid})")
            self._set("serving", (host, int(port)))
            self.preferred_port = None
        return await process.wait()

    async def _first_line(self, output: asyncio.StreamReader) -> str:
        """Wait for the first line of a broker that starts, as long as it takes: it may have much to recover."""
        began = time.monotonic()
        reading = asyncio.create_task(output.readline())
        while not (await asyncio.wait({reading}, timeout=SLOW_START_S))[0]:
            waited_s = time.monotonic() - began
            self._tell(f"broker {self.number} has been starting for {waited_s:.0f} s, see {self.log_path}")
        return reading.result().decode("utf-8", "replace")

    def _preference(self) -> list[str]:
        return [] if self.preferred_port is None else ["--prefer-port", str(self.preferred_port)]

    def _set(self, state: str, address: tuple[str, int] | None) -> None:
        self.state, self.address = state, address
        self.pid = self._process.pid if address is not None and self._process is not None else None
        self._on_change()

    async def stop(self) -> bool:
        """SIGTERM, at which a broker hands its leaderships over; False where it took too long and was killed."""
        self._stopping.set()
        process = self._process
        if process is None or process.returncode is not None:
            return True
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), STOP_WITHIN_S)
        except TimeoutError:
            process.kill()
            await process.wait()
            self._tell(f"broker {self.number} did not stop within {STOP_WITHIN_S:.0f} s and was killed")
            by_itself = False
        else:
            self._tell(f"broker {self.number} has stopped")
            by_itself = True
        self.state, self.address, self.pid = "stopped", None, None
        return by_itself

    def _last_line(self) -> str:
        """The last line of the broker's log: the reason why it did not start."""
        try:
            with open(self.log_path, "rb") as log:
                log.seek(max(0, os.path.getsize(self.log_path) - 4096))
                lines = log.read().decode("utf-8", "replace").splitlines()
        except OSError:
            lines = []
        return lines[-1] if lines else "it said nothing"


def _how(code: int) -> str:
    if code < 0:
        try:
            return f"was killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"was killed by signal {-code}"
    return f"ended with exit code {code}"


def _die_with_parent() -> None:
    """Ask the kernel, in the child, to end it with its parent; on other systems the child lives on."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
