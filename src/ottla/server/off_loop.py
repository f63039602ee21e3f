"""Runs slow work in a thread, so that the loop goes on meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


def off_loop(
    loop: asyncio.AbstractEventLoop, work: Callable[[], None], done: Callable[[BaseException | None], None]
) -> None:
    """Call `work` in a thread, then `done` on the loop, with what `work` raised."""

    def ended(future: asyncio.Future[None]) -> None:
        done(future.exception())

    loop.run_in_executor(None, work).add_done_callback(ended)
