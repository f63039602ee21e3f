"""A part as a process: its command, its lines on the screen, and what its end means to the job that runs it."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path

from ottla.config.profiles import BOOTSTRAP_VARIABLE, PROFILE_VARIABLE, REGISTRY_VARIABLE
from ottla.jobs.options import JobOptionKind
from ottla.jobs.running_async import AsyncJobRun
from ottla.jobs.states import JobFault
from ottla.lake.options import OPTIONS as LAKE_OPTIONS
from ottla.pipeline.parts import PipelinePart

PROGRAM = (sys.executable, "-m", "ottla")
READY = re.compile(r"^ottla (?P<who>\S+) ready: (?P<where>\S+)")
_MISUSED = 2
_LONGEST_LINE = 1 << 16
_NOT = {"read_committed": "--read-uncommitted"}
"""Flags of a load that say the contrary by a name of their own."""
Say = Callable[[str, str], None]
"""Shows a line of a part: its label and the line."""


class PartEnded(Exception):
    """A process ended by itself; `code` is its exit status, negative for a signal."""

    def __init__(self, code: int, last: str) -> None:
        how = f"signal {-code}" if code < 0 else f"exit status {code}"
        super().__init__(f"ended with {how}" + (f": {last}" if last else ""))
        self.code = code


def fault_of(error: Exception) -> JobFault:
    """A command line that the part's program refuses stays refused; all else may pass."""
    may_pass = not (isinstance(error, PartEnded) and error.code == _MISUSED)
    return JobFault(str(error) or type(error).__name__, "", may_pass=may_pass)


class Child:
    """Runs a command, as the work of a job."""

    def __init__(
        self,
        label: str,
        command: Sequence[str],
        folder: Path,
        say: Say,
        *,
        ready: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`ready`: names in the lines by which the program says where it listens; without any it is ready at once.

        `environment`: all of it; None: that of this process.
        """
        self._environment = environment
        self._label, self._command, self._folder, self._say = label, command, folder, say
        self._ready = frozenset(ready)
        self.addresses: dict[str, str] = {}
        self.listening = asyncio.Event()
        self.process: asyncio.subprocess.Process | None = None

    async def work(self, run: AsyncJobRun) -> None:
        """Run it to its end. PartEnded if it fails; it is asked to stop, and waited for, once the job is ending."""
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *self._command,
            cwd=self._folder,
            env=self._environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=pipe,
            stderr=asyncio.subprocess.STDOUT,
        )
        self.process = process
        if not self._ready:
            run.began()
        ending = asyncio.create_task(run.ending.wait())
        reading = asyncio.create_task(self._read(process, run))
        try:
            await asyncio.wait((ending, reading), return_when=asyncio.FIRST_COMPLETED)
            stopped = not reading.done()
            if stopped:
                process.terminate()
            last = await reading
            code = await process.wait()
        finally:
            ending.cancel()
            if process.returncode is None:
                process.kill()
                await process.wait()
            self.listening.clear()
        if code and not stopped:
            raise PartEnded(code, last)

    async def _read(self, process: asyncio.subprocess.Process, run: AsyncJobRun) -> str:
        """Pass its lines on until it closes its output; the last one."""
        assert process.stdout is not None
        last = ""
        async for content in _lines(process.stdout):
            line = content.decode("utf-8", "replace").rstrip()
            if not line:
                continue
            last = line
            if (found := READY.match(line)) is not None:
                who = "broker" if found["who"][0].isdigit() else found["who"]
                self.addresses[who] = found["where"]
                if self._ready and self._ready <= self.addresses.keys() and not self.listening.is_set():
                    run.began()
                    self.listening.set()
            self._say(self._label, line)
        return last


async def _lines(stream: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """The lines of a program; one that is longer than the limit comes in pieces."""
    rest = b""
    while chunk := await stream.read(_LONGEST_LINE):
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line
        if len(rest) >= _LONGEST_LINE:
            yield rest
            rest = b""
    yield rest


def broker_command(data: str, port: int, *, registry: bool) -> list[str]:
    command = [*PROGRAM, "start", "--data", data, "--port", str(port), "--http-port", "0"]
    return command + (["--registry-port", "0"] if registry else [])


def worker_command(bootstrap: str) -> list[str]:
    return [*PROGRAM, "connect", "start", "-b", bootstrap, "--port", "0"]


def program_environment(bootstrap: str, registry: str) -> dict[str, str]:
    """The environment of a program: the commands and clients of ottla find the pipeline's cluster in it."""
    kept = {name: value for name, value in os.environ.items() if name != PROFILE_VARIABLE}
    return kept | {BOOTSTRAP_VARIABLE: bootstrap} | ({REGISTRY_VARIABLE: registry} if registry else {})


def program_words(text: str) -> list[str]:
    """The words of a program's command line. `python` and `ottla` are those that run the pipeline; ValueError."""
    first, *rest = shlex.split(text)
    own = {"python": (sys.executable,), "ottla": PROGRAM}
    return [*own.get(first, (first,)), *rest]


def command_of(part: PipelinePart, bootstrap: str, registry: str, client: str) -> list[str]:
    """The command that runs a part in a process of its own."""
    if part.section == "programs":
        return program_words(str(part.values["run"]))
    return [*PROGRAM, *_COMMANDS[part.section](part, bootstrap, registry, client)]


def _stream(part: PipelinePart, bootstrap: str, registry: str, client: str) -> list[str]:
    values = part.values
    words = ["streams", "run", str(values["app"]), "--application-id", part.application_id, "-b", bootstrap]
    for name in ("on", "stores", "on_error", "dead_letter"):
        if values.get(name):
            words += [f"--{name.replace('_', '-')}", str(values[name])]
    return words + (["--command-config", client] if client else [])


def _lake(part: PipelinePart, bootstrap: str, registry: str, client: str) -> list[str]:
    values = part.values
    topics = str(values.get("topics") or "")
    words = ["lake", "load", *(name.strip() for name in topics.split(",") if name.strip())]
    words += ["--to", str(values["to"]), "-b", bootstrap]
    if values.get("every"):
        words += ["--every", f"{values['every']}ms"]
    if registry and values.get("values") in ("avro", "protobuf") and not values.get("schema"):
        words += ["--registry", registry]
    for option in LAKE_OPTIONS:
        if option.name not in values:
            continue
        value = values[option.name]
        if option.kind is JobOptionKind.FLAG:
            words.append(option.spelt if value else _NOT.get(option.name, f"--no-{option.spelt[2:]}"))
        elif option.kind is JobOptionKind.LIST:
            words += [word for each in value for word in (option.spelt, each)]
        else:
            words += [option.spelt, str(value)]
    return words + (["--command-config", client] if client else [])


def _mirror(part: PipelinePart, bootstrap: str, registry: str, client: str) -> list[str]:
    return ["mirror", "start", str(part.values["file"])]


_COMMANDS: dict[str, Callable[[PipelinePart, str, str, str], list[str]]] = {
    "streams": _stream,
    "lakes": _lake,
    "mirrors": _mirror,
}
