"""Addresses of ZooKeeper ensembles as users write them."""

from __future__ import annotations

import pytest

from ottla.coordination.zookeeper_address import ZookeeperAddress, parse_zookeeper_address


@pytest.mark.parametrize(
    ("text", "hosts", "chroot"),
    [
        ("zookeeper://h1:2181,h2:2182/a/b", ("h1:2181", "h2:2182"), "/a/b"),
        ("zookeeper://h1", ("h1:2181",), ""),
        ("zookeeper://h1:2181/", ("h1:2181",), ""),
        ("zookeeper://h1:2181/ottla/", ("h1:2181",), "/ottla"),
        ("zookeeper://[::1]:99,[fe80::1]/x", ("[::1]:99", "[fe80::1]:2181"), "/x"),
    ],
)
def test_servers_and_chroot_are_told_apart(text: str, hosts: tuple[str, ...], chroot: str) -> None:
    assert parse_zookeeper_address(text) == ZookeeperAddress(hosts, chroot)


@pytest.mark.parametrize(
    "text",
    [
        "h1:2181",
        "sqlite:x",
        "zookeeper://",
        "zookeeper:///x",
        "zookeeper://h1,,h2",
        "zookeeper://h1:",
        "zookeeper://h1:0",
        "zookeeper://h1:65536",
        "zookeeper://h1:-1",
        "zookeeper://h1:x",
        "zookeeper://::1:2181",
        "zookeeper://[::1:2181",
        "zookeeper://h1/a//b",
        "zookeeper://h1/../b",
    ],
)
def test_what_is_not_an_address_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match=r"does not begin|is not a"):
        parse_zookeeper_address(text)
