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
PRELOADED = ("ottla.cli", "ottla.client")
LONGEST_REQUEST = 1 << 20
_sending = threading.Lock()
_servers: list[subprocess.Popen[bytes]] = []


def run_program(
    arguments: list[str], *, stdin: bytes = b"", environment: Mapping[str, str] | None = None, timeout_s: float = 60
) -> subprocess.CompletedProcess[bytes]:
    """Run `ottla` with the given arguments; TimeoutExpired if it has not ended in time."""
    variables = dict(os.environ if environment is None else environment)
    differ = [name for name in variables.keys() ^ os.environ.keys() if name.startswith("PYTHON")]
    assert not differ, f"{differ} count at Python's start: run it as a process that is not forked"
    request = json.dumps({"arguments": arguments, "directory": os.getcwd(), "environment": variables}).encode()
    with contextlib.ExitStack() as stack:
        (stdin_end, given), (said, stdout_end), (told, stderr_end) = os.pipe(), os.pipe(), os.pipe()
        streams = [stack.enter_context(os.fdopen(given, "wb"))]
        streams += [stack.enter_context(os.fdopen(end, "rb")) for end in (said, told)]
        status, status_end = socket.socketpair()
        stack.enter_context(status)
        theirs = [stdin_end, stdout_end, stderr_end, status_end.detach()]
        try:
            with _sending:
                socket.send_fds(_server(), [request], theirs)
        finally:
            for end in theirs:
                os.close(end)
        return _communicate(["ottla", *arguments], status, streams, stdin, timeout_s)


def _communicate(
    command: list[str], status: socket.socket, streams: list[Any], stdin: bytes, timeout_s: float
) -> subprocess.CompletedProcess[bytes]:
    """Write and read the streams of a run until it ends."""
    outputs: dict[int, bytes] = {}

    def read(place: int) -> None:
        outputs[place] = streams[place].read()

    threads = [threading.Thread(target=_give, args=(streams[0], stdin))]
    threads += [threading.Thread(target=read, args=(place,)) for place in (1, 2)]
    for thread in threads:
        thread.start()
    answers = status.makefile("r")
    pid = int(answers.readline())
    status.settimeout(timeout_s)
    try:
        code = int(answers.readline())
    except TimeoutError:
        os.kill(pid, signal.SIGKILL)
        raise subprocess.TimeoutExpired(command, timeout_s) from None
    finally:
        for thread in threads:
            thread.join()
    return subprocess.CompletedProcess(command, code, outputs[1], outputs[2])


def _give(stream: BinaryIO, content: bytes) -> None:
    """Write the input; a program may end without having read it."""
    with contextlib.suppress(BrokenPipeError), stream:
        stream.write(content)


@cache
def _server() -> socket.socket:
    """The connection to the process that forks, which ends with the connection, so at our own end."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    here.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, LONGEST_REQUEST)
    with there:
        command = [sys.executable, "-m", "tests.forked_program", str(there.fileno())]
        _servers.append(subprocess.Popen(command, cwd=ROOT, pass_fds=[there.fileno()]))
    return here


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
