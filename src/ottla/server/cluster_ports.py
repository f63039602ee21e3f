"""The ports of the brokers of `ottla cluster up`: requested ones, kept ones, or the usual ones if they are free.

A broker's directory keeps its port in the file `port`, which `ottla start --port 0` reads. Where another port would do
as well, the broker itself finds out whether it can have its port: `ottla start --prefer-port`. A port that is found
free here may be taken when the broker binds it.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping

from ottla.server.kept_ports import PORT_FILE, USUAL_LISTENER, parse_ports, port_of, write_ports

FIRST_PORT = 9092
_MOST = 65535


class PortTaken(Exception):
    """Brokers cannot have their ports; the text names the ports and a remedy."""


def problem(base: int | None, brokers: int) -> str | None:
    """The reason why `--port BASE` does not fit so many brokers, or None."""
    if base is None or (base >= 0 and base + brokers - 1 <= _MOST):
        return None
    return f"--port {base}: {brokers} brokers need ports from there on, which are 1 to {_MOST}; 0 takes free ones"


def give_ports(directories: Mapping[int, str], base: int | None, listener: str = USUAL_LISTENER) -> dict[int, int]:
    """Keep each broker's port in its directory, where `ottla start` finds it; return the ports to prefer.

    None: those kept from before; brokers without one prefer 9092 and so on. 0: those kept from before that are free are
    preferred. PortTaken, and nothing is changed, where a port that was asked for, or was kept and is wanted again, is
    taken.
    """
    preferred: dict[int, int] = {}
    kept = {number: port for number, path in directories.items() if (port := _kept(path, listener)) is not None}
    if base:
        wanted = {number: base + number - 1 for number in directories}
    elif base == 0:
        wanted = preferred = {number: port for number, port in kept.items() if _fault(port) is None}
    else:
        wanted = kept
        usual = {number: FIRST_PORT + number - 1 for number in directories if number not in kept}
        preferred = {number: port for number, port in usual.items() if port not in kept.values()}
    if base != 0 and (taken := {port: fault for port in wanted.values() if (fault := _fault(port)) is not None}):
        raise PortTaken(_sentence({number: port for number, port in wanted.items() if port in taken}, taken))
    for number, path in directories.items():
        _keep(path, wanted.get(number), listener)
    return preferred


def _sentence(brokers: Mapping[int, int], taken: Mapping[int, str]) -> str:
    parts = [f"port {port} of broker {number} cannot be had ({taken[port]})" for number, port in brokers.items()]
    return (
        f"{', '.join(parts)}: end what listens there, or choose others: --port BASE for BASE, BASE+1 and so on, "
        "--port 0 for free ones"
    )


def _kept(directory: str, listener: str) -> int | None:
    """The port in the directory; a file that cannot be read keeps none, which the broker logs itself."""
    with contextlib.suppress(OSError, ValueError), open(os.path.join(directory, PORT_FILE), encoding="utf-8") as file:
        address = parse_ports(file.read()).get(listener)
        return None if address is None else port_of(address)
    return None


def _keep(directory: str, port: int | None, listener: str) -> None:
    if port == _kept(directory, listener):
        return
    if port is None:
        os.unlink(os.path.join(directory, PORT_FILE))
        return
    write_ports(directory, {listener: f"127.0.0.1:{port}"})


def _fault(port: int) -> str | None:
    """The reason why a broker cannot listen on the port, or None."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as fault:
            return fault.strerror
    return None
