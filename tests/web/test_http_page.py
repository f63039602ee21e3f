"""The example on the page about HTTP does as the page says."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tests.web.raw import served

PAGE = Path(__file__).parents[2] / "docs" / "internals" / "http.md"


def test_the_example_of_the_page_serves() -> None:
    names: dict[str, Any] = {}
    exec(PAGE.read_text().split("```python\n")[1].split("```")[0], names)

    async def test() -> None:
        async with served(names["router"]) as server:
            client = await server.client()

            async def ask(line: str, body: bytes = b"") -> tuple[int, bytes]:
                head = f"{line} HTTP/1.1\r\nHost: here\r\nContent-Length: {len(body)}\r\n"
                found = await client.answer(f"{head}Content-Type: application/json\r\n\r\n".encode() + body)
                return found[0], found[2]

            assert await ask("GET /boats/Ida/crew") == (200, b'{"crew":3}')
            assert await ask("GET /boats/Ada/crew") == (404, b'{"error_code":404,"message":"No boat Ada"}')
            assert (await ask("GET /boats/Ida/crew?old=1"))[0] == 400
            assert await ask("PUT /boats/A%2Fb/crew", b'{"crew": 2}') == (204, b"")
            assert (await ask("PUT /boats/Ida/crew", b"[]"))[0] == 422
            assert await ask("GET /boats/A%2Fb/crew") == (200, b'{"crew":2}')

    asyncio.run(test())
