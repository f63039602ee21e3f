"""The socket in the directory of `ottla cluster up` by which `ottla cluster down` ends it.

The process that answers at the socket runs the brokers of that directory. A process id would not be safe, as it may
be another program's by now. Both directions are lines: `down`, and then JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import Callable, Iterator

_SOCKET = "control"
_DOWN = b"down\n"


class Control:
    """The side of the process that runs the brokers."""

    def __init__(self, directory: str, on_down: Callable[[], None]) -> None:
        self._directory = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._on_down = on_down
        self._server: asyncio.Server | None = None
        self._listeners: list[asyncio.StreamWriter] = []

    async def open(self) -> None:
        """Listen, for this user alone; OSError where the file system has no sockets."""
        sock = socket.socket(socket.AF_UNIX)
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(_SOCKET, dir_fd=self._directory)  # left by a run that was killed: we hold the lock
            before = os.umask(0o177)
            try:
                sock.bind(_short_path(self._directory))
            finally:
                os.umask(before)
        except OSError:
            sock.close()
            raise
        self._server = await asyncio.start_unix_server(self._serve, sock=sock)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, ValueError):
            if await reader.readline() == _DOWN:
                self._listeners.append(writer)
                self._on_down()
                return
        writer.close()

    def say(self, sentence: str) -> None:
        """Send a sentence to the clients that wait for the end."""
        for writer in self._listeners:
            writer.write(json.dumps({"said": sentence}).encode() + b"\n")

    def close(self, *, killed: int) -> None:
        """Report that all brokers are gone, and the number of those that were killed."""
        for writer in self._listeners:
            writer.write(json.dumps({"killed": killed}).encode() + b"\n")
            writer.close()
        if self._server is not None:
            self._server.close()
            with contextlib.suppress(OSError):
                os.unlink(_SOCKET, dir_fd=self._directory)
        os.close(self._directory)


class Ending:
    """The side of the process that wants them to stop."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock

    @staticmethod
    def connect(directory: str) -> Ending | None:
        """Connect; None if no process listens in that directory."""
        try:
            at = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return None
        sock = socket.socket(socket.AF_UNIX)
        try:
            sock.connect(_short_path(at))
        except (FileNotFoundError, ConnectionRefusedError):
            sock.close()
            return None
        except OSError:
            sock.close()
            raise
        finally:
            os.close(at)
        return Ending(sock)

    def events(self, within_s: float) -> Iterator[dict[str, object]]:
        """Ask for the end, then yield all sentences until it has come; TimeoutError after so long a silence."""
        self._socket.settimeout(within_s)
        with self._socket, contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._socket.sendall(_DOWN)
            with self._socket.makefile("rb") as lines:
                for line in lines:
                    event: dict[str, object] = json.loads(line)
                    yield event


def _short_path(directory: int) -> str:
    """A socket's path may have 107 bytes; through the open directory it always fits."""
    return f"/proc/self/fd/{directory}/{_SOCKET}"
