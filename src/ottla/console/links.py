"""Another server that the console asks over HTTP, a worker of Connect or an instance of Streams: JSON, and pictures."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import quote

_TIMEOUT_S = 10.0


class LinkRefused(Exception):
    """The server refused, or did not answer; the sentence says which."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class LinkedServer:
    """One server by its URL."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self._pool: Any = None

    async def ask(self, method: str, *path: str, query: str = "", body: object = None) -> Any:
        """The JSON that a path answers; its parts may hold any sign. LinkRefused has the server's own words."""
        where = "/".join(quote(part, safe="") for part in path)
        return await asyncio.to_thread(self._ask, method, f"{self.url}/{where}{query}", body)

    async def picture(self, path: str) -> bytes:
        """The SVG that a path answers; LinkRefused where it answers something else."""
        answer = await asyncio.to_thread(self._request, "GET", f"{self.url}/{path}", None)
        if answer.status >= 400 or not answer.headers.get("Content-Type", "").startswith("image/svg+xml"):
            raise LinkRefused(502, f"{self.url}/{path} answers {answer.status} and no picture: is the server older?")
        content: bytes = answer.data
        return content

    def _ask(self, method: str, url: str, body: object) -> Any:
        answer = self._request(method, url, body)
        try:
            found = json.loads(answer.data) if answer.data else None
        except ValueError:
            raise LinkRefused(502, f"{url} answers no JSON") from None
        if answer.status >= 400:
            told = found.get("message", "") if isinstance(found, dict) else ""
            raise LinkRefused(answer.status, f"{self.url} answers {answer.status}: {told or answer.reason}")
        return found

    def _request(self, method: str, url: str, body: object) -> Any:
        import urllib3

        if self._pool is None:
            self._pool = urllib3.PoolManager(maxsize=4, retries=False, timeout=urllib3.Timeout(_TIMEOUT_S))
        sent = None if body is None else json.dumps(body).encode()
        headers = {"Accept": "application/json, image/svg+xml", "Content-Type": "application/json"}
        try:
            return self._pool.request(method, url, body=sent, headers=headers)
        except urllib3.exceptions.HTTPError as fault:
            raise LinkRefused(502, f"{self.url} does not answer: {fault}") from None
