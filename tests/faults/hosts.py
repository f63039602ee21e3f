"""Separate hosts for processes: network namespaces around one that routes between them and drops chosen packets.

The process that makes them stays in its own namespace, as one more host. Needs root on Linux.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence

_RULE = "10"


def can_make_hosts() -> bool:
    if os.geteuid() != 0 or shutil.which("ip") is None or shutil.which("nsenter") is None:
        return False
    return subprocess.run(["unshare", "-n", "true"], capture_output=True, check=False).returncode == 0


class Hosts:
    """`names` by number; each has one address. Between any two of them packets can be dropped, in one direction."""

    def __init__(self, names: Sequence[str]) -> None:
        tag = os.getpid()
        self._space = {name: f"ottla-{tag}-{name}" for name in ("hub", *names)}
        self._network = f"10.{64 + tag % 128}"
        self.address = {name: f"{self._network}.{number}.2" for number, name in enumerate(names, 1)}
        self._outside = f"ottla{tag}"

    def __enter__(self) -> Hosts:
        with contextlib.ExitStack() as undone:
            undone.callback(self._remove)
            for space in self._space.values():
                _ip("netns", "add", space)
                _ip("-n", space, "link", "set", "lo", "up")
            hub = self._space["hub"]
            subprocess.run(["nsenter", f"--net=/run/netns/{hub}", "sysctl", "-qw", "net.ipv4.ip_forward=1"], check=True)
            for number, (name, address) in enumerate(self.address.items(), 1):
                space, gateway = self._space[name], f"{self._network}.{number}.1"
                _ip("-n", hub, "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", space)
                self._connect(["-n", hub], name, gateway)
                self._connect(["-n", space], "eth0", address)
                _ip("-n", space, "route", "add", "default", "via", gateway)
            here = str(os.getpid())
            _ip("-n", hub, "link", "add", "outside", "type", "veth", "peer", "name", self._outside, "netns", here)
            self._connect(["-n", hub], "outside", f"{self._network}.255.1")
            self._connect([], self._outside, f"{self._network}.255.2")
            _ip("route", "add", f"{self._network}.0.0/16", "via", f"{self._network}.255.1")
            undone.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        self._remove()

    def prefix(self, name: str) -> list[str]:
        """The prefix of a command that runs on this host. It keeps our mounts, unlike `ip netns exec`."""
        return ["nsenter", f"--net=/run/netns/{self._space[name]}"]

    @contextlib.contextmanager
    def dropped(self, *directions: tuple[str, str]) -> Iterator[None]:
        """Drop packets from one host to the other, in silence, during a block."""
        rules = [
            ["pref", _RULE, "from", self.address[source], "to", self.address[sink], "blackhole"]
            for source, sink in directions
        ]
        for rule in rules:
            _ip("-n", self._space["hub"], "rule", "add", *rule)
        try:
            yield
        finally:
            for rule in rules:
                _ip("-n", self._space["hub"], "rule", "del", *rule)

    def _connect(self, where: list[str], link: str, address: str) -> None:
        _ip(*where, "addr", "add", f"{address}/24", "dev", link)
        _ip(*where, "link", "set", link, "up")

    def _remove(self) -> None:
        subprocess.run(["ip", "link", "del", self._outside], capture_output=True, check=False)
        for space in self._space.values():
            subprocess.run(["ip", "netns", "del", space], capture_output=True, check=False)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)
