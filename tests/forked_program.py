"""Runs `ottla ...` in a fork of a process that has imported the program: a process of its own, without the imports.

A run has its own arguments, directory, environment, standard streams and exit status. Tests of what a start imports, of
signals and of closed or full outputs start Python themselves.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, TextIO

ROOT = Path(__file__).resolve().parent.parent
PRELOADED = ("ottla.cli", "ottla.client", "ottla.server")
AT_START = ("PYTHON", "LD_")
"""Beginnings of the names of variables that count when Python starts, so not in a fork."""
LONGEST_REQUEST = 1 << 20
_sending = threading.Lock()
_servers: list[subprocess.Popen[bytes]] = []


class ForkedProgram:
    """A run of `ottla`, with what `subprocess.Popen` has of a process; the standard streams are descriptors."""

    def __init__(
        self,
        arguments: list[str],
        stdin: int,
        stdout: int,
        stderr: int,
        environment: Mapping[str, str] | None = None,
        before: str = "",
    ) -> None:
        """`before` names a function, MODULE:NAME, which the fork calls before it runs the program."""
        self.args = ["ottla", *arguments]
        self.returncode: int | None = None
        variables = dict(os.environ if environment is None else environment)
        with _sending:  # so that the first of several threads starts the only server
            server, began_with = _server()
        differ = began_with.items() ^ _counting_at_start(variables).items()
        assert not differ, f"{differ} count when Python starts: start it as a process that is not forked"
        given = {"arguments": arguments, "directory": os.getcwd(), "environment": variables, "before": before}
        request = json.dumps(given).encode()
        self._status, theirs = socket.socketpair()
        with theirs, _sending:
            socket.send_fds(server, [request], [stdin, stdout, stderr, theirs.fileno()])
        self._answers = self._status.makefile("r")
        self.pid = int(self._answers.readline())

    def poll(self) -> int | None:
        """The exit status, negative for a signal; None while it runs."""
        if self.returncode is None and select.select([self._status], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                assert timeout is not None
                raise subprocess.TimeoutExpired(self.args, timeout)
            self.returncode = int(self._answers.readline())
            self._answers.close()
            self._status.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def run_program(
    arguments: list[str],
    *,
    stdin: bytes = b"",
    environment: Mapping[str, str] | None = None,
    timeout_s: float = 60,
    before: str = "",
) -> subprocess.CompletedProcess[bytes]:
    """Run `ottla` with the given arguments; TimeoutExpired if it has not ended in time."""
    with contextlib.ExitStack() as stack:
        (stdin_end, given), (said, stdout_end), (told, stderr_end) = os.pipe(), os.pipe(), os.pipe()
        streams = [stack.enter_context(os.fdopen(given, "wb"))]
        streams += [stack.enter_context(os.fdopen(end, "rb")) for end in (said, told)]
        try:
            program = ForkedProgram(arguments, stdin_end, stdout_end, stderr_end, environment, before)
        finally:
            for end in (stdin_end, stdout_end, stderr_end):
                os.close(end)
        return _communicate(program, streams, stdin, timeout_s)


def _communicate(
    program: ForkedProgram, streams: list[Any], stdin: bytes, timeout_s: float
) -> subprocess.CompletedProcess[bytes]:
    """Write and read the streams of a run until it ends."""
    outputs: dict[int, bytes] = {}

    def read(place: int) -> None:
        outputs[place] = streams[place].read()

    threads = [threading.Thread(target=_give, args=(streams[0], stdin))]
    threads += [threading.Thread(target=read, args=(place,)) for place in (1, 2)]
    for thread in threads:
        thread.start()
    try:
        code = program.wait(timeout_s)
    finally:
        program.kill()
        for thread in threads:
            thread.join()
    return subprocess.CompletedProcess(program.args, code, outputs[1], outputs[2])


def _give(stream: BinaryIO, content: bytes) -> None:
    """Write the input; a program may end without having read it."""
    with contextlib.suppress(BrokenPipeError), stream:
        stream.write(content)


@cache
def _server() -> tuple[socket.socket, dict[str, str]]:
    """The connection to the process that forks, and those of its variables that counted when it started.

    It ends with the connection, so at our own end.
    """
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    here.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, LONGEST_REQUEST)
    with there:
        command = [sys.executable, "-m", "tests.forked_program", str(there.fileno())]
        _servers.append(subprocess.Popen(command, cwd=ROOT, pass_fds=[there.fileno()]))
    return here, _counting_at_start(os.environ)


def _counting_at_start(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if name.startswith(AT_START)}


def _serve(connection: socket.socket) -> list[str]:
    """Fork for each request. Returns in the forks, with the arguments of the run."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        request, ends, _, _ = socket.recv_fds(connection, LONGEST_REQUEST, 4)
        if not request:
            sys.exit()
        if os.fork() == 0:
            connection.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            return _forked(json.loads(request), *ends)
        for end in ends:
            os.close(end)


def _forked(request: Any, stdin: int, stdout: int, stderr: int, status: int) -> list[str]:
    """Fork again, and tell the inner process's id and how it ends. Returns in the inner process."""
    pid = os.fork()
    if pid:
        for end in (stdin, stdout, stderr):
            os.close(end)
        with contextlib.suppress(BrokenPipeError):  # nobody waits any more
            os.write(status, f"{pid}\n".encode())
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            os.write(status, f"{code}\n".encode())
        os._exit(0)
    os.close(status)
    for end, place in ((stdin, 0), (stdout, 1), (stderr, 2)):
        os.dup2(end, place)
        os.close(end)
    sys.stdin, sys.stdout, sys.stderr = (_opened(at, was) for at, was in enumerate((sys.stdin, sys.stdout, sys.stderr)))
    os.chdir(request["directory"])
    os.environ.clear()
    os.environ.update(request["environment"])
    if request["before"]:
        module, _, name = request["before"].partition(":")
        getattr(importlib.import_module(module), name)()
    arguments: list[str] = request["arguments"]
    return arguments


def _opened(place: int, was: TextIO) -> TextIO:
    """A standard stream of this process, which buffers as where there is no terminal."""
    buffering = 1 if place == 2 else -1
    return open(place, "w" if place else "r", buffering, encoding=was.encoding, errors=was.errors, closefd=False)


def _run(arguments: list[str]) -> NoReturn:
    """Run the program, and end without taking the interpreter apart, which takes longer than most runs."""
    from ottla.cli.main import main

    sys.argv = ["ottla", *arguments]
    try:
        code: Any = main()
    except SystemExit as end:
        code = end.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    if isinstance(code, str):
        sys.stderr.write(f"{code}\n")
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code or 0)


def _preload() -> None:
    """Import the program, and keep the garbage collector from touching what forks share."""
    for package in PRELOADED:
        for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            importlib.import_module(module.name)
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    _preload()
    _run(_serve(socket.socket(fileno=int(sys.argv[1]))))
