"""Ports for servers that tests start.

No port is from the range that the kernel uses for outgoing connections: a port of that range may be free when it is
chosen, and taken when a server binds it a second later or after a restart.
"""

from __future__ import annotations

import contextlib
import random
import socket
from pathlib import Path

LOWEST = 10_000
EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
HIGHEST = 32_000
"""The highest port to use if the kernel does not tell where its range begins."""


def free_port() -> int:
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Different ports that are free now."""
    candidates = range(LOWEST, _first_ephemeral())
    with contextlib.ExitStack() as held:
        found: list[int] = []
        for port in random.sample(candidates, len(candidates)):
            if len(found) == count:
                break
            with contextlib.suppress(OSError):
                held.enter_context(socket.create_server(("127.0.0.1", port)))
                found.append(port)
    assert len(found) == count, f"fewer than {count} ports are free"
    return found


def first_of_free(count: int) -> int:
    """The first of as many ports in a row that are free now."""
    lowest = range(LOWEST, _first_ephemeral() - count)
    for first in random.sample(lowest, len(lowest)):
        with contextlib.ExitStack() as held, contextlib.suppress(OSError):
            for port in range(first, first + count):
                held.enter_context(socket.create_server(("127.0.0.1", port)))
            return first
    raise AssertionError(f"no {count} ports in a row are free")


def _first_ephemeral() -> int:
    try:
        first = int(EPHEMERAL.read_text().split()[0])
    except OSError:
        return HIGHEST
    return first if first > LOWEST + 1000 else HIGHEST
