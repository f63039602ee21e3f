"""Another server that the console asks over HTTP, a worker of Connect or an instance of Streams: JSON, and pictures."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import quote, urlsplit

from ottla.web.credentials import REFUSED, Credential, NoCredential

_TIMEOUT_S = 10.0


class LinkRefused(Exception):
    """The server refused, or did not answer; the sentence says which."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class LinkedServer:
    """One server by its URL."""

    def __init__(self, url: str, credential: Credential | None = None) -> None:
        """`credential`: the caller, where the server may ask who calls. ValueError says why the URL is none."""
        parts = urlsplit(url)
        if parts.username is not None or parts.password is not None:
            raise ValueError("its URL must not hold a user or a password: pages show it")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not the URL of a server: write http://HOST:PORT")
        self.url = url.rstrip("/")
        self._credential = credential
        self._pool: Any = None

    def asked_by(self, credential: Credential) -> LinkedServer:
        """The same server for another caller, by connections of its own."""
        return LinkedServer(self.url, credential)

    def close(self) -> None:
        """Close the connections. A later request opens new ones."""
        if self._pool is not None:
            self._pool.clear()

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
            if answer.status not in REFUSED:
                raise LinkRefused(502, f"{url} answers no JSON") from None
            found = None  # a proxy before the server may refuse the caller
        if answer.status >= 400:
            told = found.get("message", "") if isinstance(found, dict) else ""
            raise LinkRefused(answer.status, self._refusal(answer.status, told or answer.reason))
        return found

    def _refusal(self, status: int, told: str) -> str:
        if self._credential is None or status not in REFUSED:
            return f"{self.url} answers {status}: {told}"
        return self._credential.refusal("the worker", self.url, status, told)

    def _request(self, method: str, url: str, body: object) -> Any:
        import urllib3

        if self._pool is None:
            self._pool = urllib3.PoolManager(maxsize=4, retries=False, timeout=urllib3.Timeout(_TIMEOUT_S))
        sent = None if body is None else json.dumps(body).encode()
        headers = {"Accept": "application/json, image/svg+xml", "Content-Type": "application/json"}
        try:
            shown = {} if self._credential is None else self._credential.headers(url)
        except NoCredential as fault:
            raise LinkRefused(401, f"{self.url} is not asked: {fault}") from None
        try:
            return self._pool.request(method, url, body=sent, headers=headers | shown)
        except urllib3.exceptions.HTTPError as fault:
            raise LinkRefused(502, f"{self.url} does not answer: {fault}") from None
