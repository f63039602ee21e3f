"""The places and maps of a mirror, kept at a broker and read back."""

from __future__ import annotations

import asyncio

from ottla.client.aio import Cluster
from ottla.kernel.ids import TopicPartition
from ottla.mirror.lane import LaneState
from ottla.mirror.notes import MirrorNotes, MirrorOrigin
from ottla.mirror.offset_map import CHUNK
from ottla.testing import TestBroker

PARTITION = TopicPartition("orders", 1)


def test_places_and_maps_of_many_breaks_come_back_as_they_were_kept_while_the_copy_went_on() -> None:
    with TestBroker() as broker:
        asyncio.run(_keep_and_read(broker.bootstrap_servers))


async def _keep_and_read(bootstrap: str) -> None:
    place = LaneState(0, 0, 0, "s", "t")
    async with Cluster(bootstrap) as cluster:
        notes = MirrorNotes(cluster, "map")
        await notes.open()
        for step in range(1, 6):
            _copy(place, step)
            keeping = asyncio.create_task(notes.keep({PARTITION: place}))
            await asyncio.sleep(0)  # it has begun
            _copy(place, 1)
            await keeping
            place.map.forget_below(place.upstream - 3 * 2 * CHUNK)
        await notes.keep({PARTITION: place})
        await notes.keep_origins({"us.orders": MirrorOrigin("orders", ("c1",))})
        again = MirrorNotes(cluster, "map")
        await again.open()
        found = again.place(PARTITION)
        assert found is not None
        assert (found.upstream, found.downstream, found.copied) == (place.upstream, place.downstream, place.copied)
        assert place.map.dropped > 0
        for offset in range(place.upstream + 2):
            assert found.map.translate(offset) == place.map.translate(offset)
        assert again.origins == {"us.orders": MirrorOrigin("orders", ("c1",))}
        assert again.partitions == [PARTITION]


def _copy(place: LaneState, steps: int) -> None:
    """Copy transactions of two records, each with a marker behind."""
    for _ in range(steps * 150):
        place.map.add(place.upstream, place.downstream, 2)
        place.upstream, place.downstream, place.copied = place.upstream + 3, place.downstream + 2, place.copied + 2
