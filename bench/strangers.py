"""The cost of many clients at the door: `python -m bench.strangers [--connections N]`.

First so many TLS handshakes that stop in the middle, then so many connections that have logged in over TLS and say
nothing. Meanwhile another client, in a process of its own, asks again and again over TLS; its longest wait is told, and
the processor time that the broker's loop spent in that wait, which other programs of the machine do not change.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import socket
import ssl
import struct
import sys
import tempfile
import time
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

from tests.ports import free_port

from bench.brokers import OttlaBroker, received, resident_mb
from bench.tls_brokers import make_keys

KIB_A_LOGIN = 24.0
"""The most memory that an idle connection may take."""
MIB_OF_HANDSHAKES = 64.0
"""The most memory that all unfinished handshakes together may take."""
TURN_MS = 50.0
USER, PASSWORD = "alice", "a password"
_API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 7, -1)


class SecuredBroker(OttlaBroker):
    """`ottla start` with a listener that asks for a password over TLS, beside the one that tells that it is ready."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.secured = free_port()
        self.trusted = ""

    def prepare(self) -> None:
        make_keys(self.folder)
        self.trusted = (self.folder / "ca.pem").read_text()

    def command(self) -> list[str]:
        plain = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
        options = {
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},SASL_SSL://127.0.0.1:{self.secured}",
            "ssl.keystore.location": str(self.folder / "broker.pem"),
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": plain,
            "connections.max.idle.ms": "7200000",
        }
        sets = [word for name, value in options.items() for word in ("--set", f"{name}={value}")]
        ottla = str(Path(sys.executable).with_name("ottla"))
        return [ottla, "start", "--data", str(self.folder / "data"), "--http-port", "0", *sets]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.strangers", description=__doc__)
    parser.add_argument("--connections", type=int, default=10_000)
    count = parser.parse_args().connections
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard < count + 500:
        parser.error(f"--connections {count} needs {count + 500} open files, and this process may have {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory() as made:
        broker = SecuredBroker(Path(made) / "broker")
        broker.start()
        try:
            return measure(broker, count)
        finally:
            broker.stop()


def measure(broker: SecuredBroker, count: int) -> int:
    """Print what both kinds of strangers cost; 1 if that is above a limit."""
    context = ssl.create_default_context(cadata=broker.trusted)
    over = []
    before = resident_mb(broker.pid)
    with Asking(broker, context) as asking:
        stalled = [stall(broker.secured, context) for _ in range(count)]
        open_still = sum(1 for sock in stalled if is_open(sock))
        used = (resident_mb(broker.pid) - before) * 1e6 / 2**20
    print(f"{count:,} stalled handshakes: {open_still:,} are left open, {used:.1f} MiB more resident; {asking.told}")
    over += ["memory of stalled handshakes"] if used > MIB_OF_HANDSHAKES else []
    over += ["a turn of the loop"] if asking.turn_ms > TURN_MS else []
    for sock in stalled:
        sock.close()
    before = resident_mb(broker.pid)
    with Asking(broker, context) as asking:
        idle = [log_in(broker.secured, context) for _ in range(count)]
        kib = (resident_mb(broker.pid) - before) * 1e6 / 1024 / count
    print(f"{count:,} idle logged-in connections: {kib:.1f} KiB resident each; {asking.told}")
    over += ["memory of idle connections"] if kib > KIB_A_LOGIN else []
    over += ["a turn of the loop"] if asking.turn_ms > TURN_MS else []
    for sock in idle:
        sock.close()
    if over:
        print(f"above the limit: {', '.join(over)}")
    return 1 if over else 0


def stall(port: int, context: ssl.SSLContext) -> socket.socket:
    """A connection that sends the beginning of a handshake and nothing more."""
    out = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), out, server_hostname="localhost").do_handshake()
    sock = socket.create_connection(("127.0.0.1", port), timeout=120)
    sock.sendall(out.read())
    return sock


def is_open(sock: socket.socket) -> bool:
    """True if the broker has not closed the connection."""
    sock.setblocking(False)
    try:
        while sock.recv(1 << 16):
            pass
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


def log_in(port: int, context: ssl.SSLContext) -> socket.socket:
    """A connection that has logged in; its TLS is forgotten at this end, so that only the broker's costs memory."""
    tls = logged_in(port, context)
    return socket.socket(fileno=tls.detach())


def logged_in(port: int, context: ssl.SSLContext) -> ssl.SSLSocket:
    tls = context.wrap_socket(socket.create_connection(("127.0.0.1", port), timeout=300), server_hostname="localhost")
    token = f"\0{USER}\0{PASSWORD}".encode()
    for key, body in ((17, struct.pack(">h5s", 5, b"PLAIN")), (36, struct.pack(">i", len(token)) + token)):
        head = struct.pack(">hhih", key, 0 if key == 36 else 1, 7, -1)
        tls.sendall(struct.pack(">i", len(head) + len(body)) + head + body)
        answer = received(tls, struct.unpack(">i", received(tls, 4))[0])
        if answer[4:6] != b"\0\0":
            raise RuntimeError(f"the login was refused: {answer!r}")
    return tls


class Asking:
    """Another client in a process of its own, which asks every two milliseconds until the block ends."""

    def __init__(self, broker: SecuredBroker, context: ssl.SSLContext) -> None:
        self.wait_ms = self.turn_ms = 0.0
        self._ours, theirs = multiprocessing.Pipe()
        fork = multiprocessing.get_context("fork")
        self._process = fork.Process(target=ask_on, args=(broker.pid, broker.secured, context, theirs), daemon=True)

    def __enter__(self) -> Asking:
        self._process.start()
        self._ours.recv()
        return self

    def __exit__(self, *_: object) -> None:
        self._ours.send("end")
        self.wait_ms, self.turn_ms = self._ours.recv()
        self._process.join()

    @property
    def told(self) -> str:
        return (
            f"another client waited {self.wait_ms:.0f} ms at most, the loop's own part of a wait {self.turn_ms:.0f} ms"
        )


def ask_on(pid: int, port: int, context: ssl.SSLContext, to: Connection) -> None:
    """Ask until told to end; then tell the longest wait, and the most that the loop worked during one."""
    stat = Path(f"/proc/{pid}/task/{pid}/schedstat")
    waits = turns = 0.0
    with logged_in(port, context) as tls:
        to.send("begun")
        while not to.poll():
            worked, began = int(stat.read_text().split()[0]), time.monotonic()
            tls.sendall(_API_VERSIONS)
            received(tls, struct.unpack(">i", received(tls, 4))[0])
            waits = max(waits, time.monotonic() - began)
            turns = max(turns, (int(stat.read_text().split()[0]) - worked) / 1e9)
            time.sleep(0.002)
    to.send((waits * 1e3, turns * 1e3))


if __name__ == "__main__":
    sys.exit(main())
