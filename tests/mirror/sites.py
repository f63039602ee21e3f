"""A mirror from one broker of the test process to another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from ottla.mirror.options import mirrors_of
from ottla.mirror.running import Mirroring
from ottla.testing import TestBroker
from ottla.web.thread import LoopThread


def properties(us: TestBroker, eu: TestBroker, **more: str) -> dict[str, str]:
    """One flow whose intervals are short."""
    found = {
        "clusters": "us, eu",
        "us.bootstrap.servers": us.bootstrap_servers,
        "eu.bootstrap.servers": eu.bootstrap_servers,
        "us->eu.enabled": "true",
        "emit.heartbeats.enabled": "false",
        "refresh.topics.interval.seconds": "1",
        "sync.topic.configs.interval.seconds": "1",
        "emit.checkpoints.interval.seconds": "1",
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": "1",
    }
    return found | {name.replace("__", "->").replace("_", "."): value for name, value in more.items()}


@contextmanager
def mirroring(given: dict[str, str]) -> Iterator[Mirroring]:
    made: list[Mirroring] = []

    @asynccontextmanager
    async def opened() -> AsyncIterator[None]:
        made.append(Mirroring(mirrors_of(given)))
        task = asyncio.create_task(made[0].run())
        try:
            yield
        finally:
            made[0].stop()
            await task

    with LoopThread("mirror", opened):
        yield made[0]
