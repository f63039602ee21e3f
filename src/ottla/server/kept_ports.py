"""The file `port` of a data directory: the ports that its broker was given, and takes again at the next start.

Its first line is an address that `-b` takes. Where there is more than the usual listener, a line `NAME HOST:PORT` for
each follows. Older versions wrote only lines `NAME PORT`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

PORT_FILE = "port"
USUAL_LISTENER = "PLAINTEXT"
_MOST = 65535
_HERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}


class KeptPorts:
    """The free ports that one data directory was given."""

    def __init__(self, directory: str, warn: Callable[[str], None]) -> None:
        self._directory, self._warn = directory, warn
        self._lost = False

    def port(self, listener: str) -> int | None:
        """The port that a listener was given before."""
        address = self._read().get(listener)
        return None if address is None else port_of(address)

    def keep(self, listener: str, bound: tuple[str, int]) -> None:
        """Keep a port for the next start."""
        try:
            write_ports(self._directory, {**self._read(), listener: address_of(bound)})
        except OSError as fault:
            self._warn(f"port {bound[1]} is not kept for the next start: {fault}")

    def _read(self) -> dict[str, str]:
        """Kept addresses, by listener. A damaged file loses them, with a warning; the next ports to keep replace it."""
        path = os.path.join(self._directory, PORT_FILE)
        try:
            with open(path, encoding="utf-8") as file:
                return parse_ports(file.read())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as fault:
            why = str(fault)
        if not self._lost:
            self._lost = True
            self._warn(
                f"{path}, which keeps the ports that this directory was given, cannot be read ({why}): "
                "a port is chosen anew"
            )
        return {}


def address_of(bound: tuple[str, int]) -> str:
    """HOST:PORT for a client on this machine, an IPv6 address in brackets."""
    host = _HERE.get(bound[0], bound[0])
    return f"[{host}]:{bound[1]}" if ":" in host else f"{host}:{bound[1]}"


def parse_ports(text: str) -> dict[str, str]:
    """Addresses by listener; ValueError says what is wrong with the file."""
    found: dict[str, str] = {}
    alone: str | None = None
    for line in text.splitlines():
        words = line.split()
        if not words:
            continue
        if len(words) > 2 or (len(words) == 1 and (alone is not None or found)):
            raise ValueError(f"{line!r} is not an address")
        address = words[-1] if ":" in words[-1] or len(words) == 1 else f"127.0.0.1:{words[-1]}"
        port_of(address)
        if len(words) == 1:
            alone = address
        else:
            found[words[0]] = address
    if alone is not None:
        found = found or {USUAL_LISTENER: alone}
    if not found:
        raise ValueError("it is empty")
    return found


def port_of(address: str) -> int:
    """The port of HOST:PORT."""
    host, _, port = address.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or not 0 < int(port) <= _MOST:
        raise ValueError(f"{address!r} is not an address")
    return int(port)


def write_ports(directory: str, addresses: Mapping[str, str]) -> None:
    """Replace the file at once."""
    os.makedirs(directory, exist_ok=True)
    path = os.path.join(directory, PORT_FILE)
    with open(path + ".tmp", "w", encoding="utf-8") as file:
        file.write(ports_text(addresses))
    os.replace(path + ".tmp", path)


def ports_text(addresses: Mapping[str, str]) -> str:
    """The content of the file."""
    first = addresses.get(USUAL_LISTENER) or next(iter(addresses.values()))
    others = [] if set(addresses) == {USUAL_LISTENER} else [f"{name} {at}\n" for name, at in sorted(addresses.items())]
    return f"{first}\n" + "".join(others)
