"""The users of a first start are taken where nobody has a password, all or none."""

from __future__ import annotations

from clusters import a_cluster

from ottla.cluster.commands import AddFirstUsers, EditScramKeys
from ottla.kernel.credentials import ScramKeys

KEYS = ScramKeys(b"salt", 4096, b"stored", b"server")
FIRST = AddFirstUsers((("admin", 2, KEYS), ("alice", 2, KEYS)))


def test_they_are_taken_once() -> None:
    cluster = a_cluster(1)
    cluster.do(FIRST)
    assert set(cluster.state.scram) == {("admin", 2), ("alice", 2)}
    cluster.do(EditScramKeys("alice", 2, None))
    assert cluster.do(FIRST) == []
    assert set(cluster.state.scram) == {("admin", 2)}


def test_a_cluster_with_another_user_does_not_get_them() -> None:
    cluster = a_cluster(1)
    cluster.do(EditScramKeys("mine", 1, KEYS))
    assert cluster.do(FIRST) == []
