"""A running broker is seen alive in the ensemble, also after another of its number came and went."""

from __future__ import annotations

import contextlib
import time

from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError


def test_a_broker_outlives_another_of_its_number_that_came_and_went(store):
    """Like a broker that was started with another's number and is then refused because of its directory."""
    one, two = store.open(1), store.open(2)
    assert store.wait_until(lambda: two.live() == {1, 2})
    by_mistake = store.open(1)
    assert store.wait_until(lambda: by_mistake.live() == {1, 2})
    by_mistake.close()

    def is_ours() -> bool:
        seen = one._client.exists(f"{one._root}/live/1")
        return seen is not None and seen.ephemeralOwner == one._client.client_id[0]

    assert store.wait_until(is_ours)
    assert store.wait_until(lambda: one.live() == two.live() == {1, 2})


def test_one_whose_number_another_takes_at_the_same_moment_starts_all_the_same(store, monkeypatch):
    """The answer that no node exists is outdated: another broker has created the node meanwhile."""
    one = store.open(1)
    create = KazooClient.create_async
    quicker: list[bool] = []

    def late(client: KazooClient, path: str, *values: object, **options: object) -> object:
        if client is not one._client and path.endswith("/live/1") and not quicker:
            quicker.append(True)
            with contextlib.suppress(NodeExistsError):  # the broker has made the node by itself
                create(one._client, path, ephemeral=True).get(timeout=60)
        return create(client, path, *values, **options)

    monkeypatch.setattr(KazooClient, "create_async", late)
    by_mistake = store.open(1)
    assert quicker and store.wait_until(lambda: by_mistake.live() == {1})
    by_mistake.close()
    assert store.wait_until(lambda: one.live() == {1})


def test_a_connection_that_drops_while_a_broker_sees_to_its_presence_is_made_again(store, cables, monkeypatch):
    one = store.open(1, hosts=cables.hosts)
    known = KazooClient.client_id.fget
    dropped: list[bool] = []

    def drops(client: KazooClient) -> object:
        if client is one._client and not dropped:
            dropped.append(True)
            cables.cut()
            while client.connected:
                time.sleep(0.001)
            cables.mend()
        return known(client)

    monkeypatch.setattr(KazooClient, "client_id", property(drops))
    cables.cut()
    cables.mend()
    assert store.wait_until(lambda: bool(dropped))
    asked = one.head()
    assert store.wait_until(lambda: asked.full)
