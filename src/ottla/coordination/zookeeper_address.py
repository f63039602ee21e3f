"""The address of a ZooKeeper ensemble as users write it: `zookeeper://h1:2181,h2:2181/chroot`."""

from __future__ import annotations

from typing import NamedTuple

SCHEME = "zookeeper://"
DEFAULT_PORT = 2181


class ZookeeperAddress(NamedTuple):
    hosts: tuple[str, ...]
    """The servers, each as `host:port`."""
    chroot: str
    """The node above all of ours: "" for the root, else with a leading and no trailing slash."""


def parse_zookeeper_address(text: str) -> ZookeeperAddress:
    """Parse the text; ValueError, with a sentence, if it is not of that form."""
    if not text.startswith(SCHEME):
        raise ValueError(f"{text!r} does not begin with {SCHEME}")
    servers, slash, path = text.removeprefix(SCHEME).partition("/")
    chroot = slash + path.rstrip("/") if path.rstrip("/") else ""
    if any(part in ("", ".", "..") for part in chroot.split("/")[1:]) or "\0" in chroot:
        raise ValueError(f"{chroot!r} is not a path in ZooKeeper")
    return ZookeeperAddress(tuple(_server(server, text) for server in servers.split(",")), chroot)


def _server(server: str, text: str) -> str:
    """One server with its port; an IPv6 address stands in brackets."""
    bracket = server.rfind("]")
    host, colon, port = server.rpartition(":") if server.rfind(":") > bracket else (server, "", "")
    if not host or host == "[]" or (host.startswith("[") != host.endswith("]")) or (":" in host and host[0] != "["):
        raise ValueError(f"{server!r} in {text!r} is not a server: write host:port")
    number = port if colon else str(DEFAULT_PORT)
    if not (number.isascii() and number.isdigit() and 0 < int(number) < 65536):
        raise ValueError(f"{port!r} in {text!r} is not a port")
    return f"{host}:{int(number)}"
