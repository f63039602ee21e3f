"""Work on many partitions, some at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

K = TypeVar("K")
T = TypeVar("T")

SIDE_BY_SIDE: Final = 8
"""Partitions that are worked on at a time."""


async def side_by_side(keys: Iterable[K], do: Callable[[K], Awaitable[T]], most: int = SIDE_BY_SIDE) -> dict[K, T]:
    """The result for each key, in their order; the first fault ends all, and rises."""
    places = asyncio.Semaphore(most)

    async def one(key: K) -> T:
        async with places:
            return await do(key)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = {key: group.create_task(one(key)) for key in keys}
    except ExceptionGroup as faults:
        raise faults.exceptions[0] from None
    return {key: task.result() for key, task in tasks.items()}
