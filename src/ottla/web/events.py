"""Server-sent events: an answer that goes on, one event after the other, for pictures that live."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator

from ottla.web.exchange import Json, Response

_QUIET_S = 15.0
_HEADERS = (("Cache-Control", "no-store"), ("X-Accel-Buffering", "no"))  # the second is for nginx: do not collect


def event(value: Json, *, name: str = "", number: str = "") -> bytes:
    """One event with a value as JSON. A browser sends the last `number` when it connects again (Last-Event-ID)."""
    lines = []
    for key, text in (("event", name), ("id", number)):
        if any(each in text for each in "\r\n\0"):
            raise ValueError(f"the {key} of an event has no line ends: {text!r}")
        lines += [f"{key}: {text}\n"] if text else []
    data = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return f"{''.join(lines)}data: {data}\n\n".encode()


def events(source: AsyncGenerator[bytes, None], *, quiet_s: float = _QUIET_S) -> Response:
    """Send events as `source` makes them, and a comment after `quiet_s` without one: proxies close silent answers.

    A client that reads slowly holds up its own source. The source is closed when the client leaves.
    """
    return Response(_with_comments(source, quiet_s), "text/event-stream", headers=_HEADERS, endless=True)


async def _with_comments(source: AsyncGenerator[bytes, None], quiet_s: float) -> AsyncGenerator[bytes, None]:
    upcoming: asyncio.Task[bytes | None] | None = None
    try:
        while True:
            upcoming = upcoming or asyncio.create_task(_next(source))
            done, _ = await asyncio.wait({upcoming}, timeout=quiet_s)
            if not done:
                yield b":\n\n"
                continue
            made, upcoming = upcoming.result(), None
            if made is None:
                return
            yield made
    finally:
        if upcoming is not None:
            upcoming.cancel()
            await asyncio.wait({upcoming})
        await source.aclose()


async def _next(source: AsyncGenerator[bytes, None]) -> bytes | None:
    return await anext(source, None)
