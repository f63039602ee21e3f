"""Waits for the work of threads, which nobody can break off."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any


async def ended(working: asyncio.Future[Any]) -> None:
    """Wait until a thread has done its work, also where this is cancelled meanwhile."""
    while not working.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait((working,))
