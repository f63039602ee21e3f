"""Runs a registry, a Connect worker or a console beside a broker: `ottla start --registry-port`, `--connect-port`, …

Each is a process of its own: a heavy schema, a connector or a search would hold up the broker's loop. It ends
with the broker, however the broker ends: its standard input is a pipe that the kernel closes then.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress

SECONDS_TO_STOP = 10.0


class BesideFailed(Exception):
    """A process beside the broker did not start; the sentence names it."""


class ProcessBeside:
    """One process beside a broker: a command of `ottla` on its address."""

    def __init__(self, command: Sequence[str], name: str, address: str, port: int, client: str | None = None) -> None:
        """`command`: its words; `name`: the words for it in a sentence; `client`: its file of client options."""
        self._command = command
        self._name = name
        self._address = address
        self._port = port
        self._client = client
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> str:
        """Start the process and return its URL; BesideFailed if it does not start."""
        pipe = asyncio.subprocess.PIPE
        command = [sys.executable, "-m", "ottla.cli.main", *self._command, "--with-parent"]
        command += [] if self._client is None else ["--command-config", self._client]
        self._process = await asyncio.create_subprocess_exec(
            *command, "-b", self._address, "--port", str(self._port), stdin=pipe, stdout=pipe
        )
        assert self._process.stdout is not None
        line = (await self._process.stdout.readline()).decode("utf-8", "replace")
        _, found, rest = line.partition(" ready: ")
        if not found:
            await self.stop()
            raise BesideFailed(f"the {self._name} did not start; the lines before say why")
        return rest.split(" ")[0].strip()

    async def stop(self) -> None:
        """End the process, by force if it does not end in time."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        with suppress(ProcessLookupError):
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), SECONDS_TO_STOP)
        except TimeoutError:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


_COMMANDS = {
    "registry": ("schema registry", "registry start"),
    "connect": ("Connect worker", "connect start"),
    "console": ("console", "console"),
}
"""The name in a sentence, and the command; the console comes last, since it is told where the others listen."""


class AllBeside:
    """All that was asked for beside a broker, or beside several."""

    def __init__(self, ports: Mapping[str, int | None], client: str | None) -> None:
        """`ports`: by the nouns registry, connect and console; None for what is not wanted."""
        self._ports = ports
        self._client = client
        self._started: list[ProcessBeside] = []

    async def start(self, address: str) -> None:
        """Start one after the other, and print where each listens; BesideFailed if one does not start."""
        known: list[str] = []
        for noun, (name, command) in _COMMANDS.items():
            port = self._ports.get(noun)
            if port is None:
                continue
            words = [*command.split(), *(known if noun == "console" else ())]
            self._started.append(ProcessBeside(words, name, address, port, self._client))
            url = await self._started[-1].start()
            known += [f"--{noun}", url]
            print(f"ottla {noun} ready: {url}", flush=True)

    async def stop(self) -> None:
        for each in reversed(self._started):
            await each.stop()
