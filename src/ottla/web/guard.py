"""Keeps other sites in a browser away from a server on this machine: they may neither change nor read what it has.

A page of any site can send requests to a loopback address. Browsers say where a request comes from; other clients do
not, and are let through.
"""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import urlsplit

from ottla.web.exchange import Handler, HttpError, Request, Response

LOOPBACK = ("localhost", "127.0.0.1", "::1")
_READING = ("GET", "HEAD", "OPTIONS")


class Guarded:
    """A handler that refuses by 403 requests under a foreign name, and changes that another site asks for."""

    def __init__(self, handler: Handler, hosts: Collection[str] = LOOPBACK) -> None:
        """`hosts` are the names under which browsers reach this server, without ports."""
        self._handler = handler
        self._hosts = hosts

    async def __call__(self, request: Request) -> Response:
        host = request.headers.get("host", "")
        if _name(f"//{host}") not in self._hosts:
            # A site may point its own name to this address (DNS rebinding), and would then read all answers.
            raise HttpError(403, f"HTTP 403 Forbidden: this server is not {host!r} but {', '.join(self._hosts)}")
        if request.method not in _READING and not _ours(request, host):
            raise HttpError(403, "HTTP 403 Forbidden: the page of another site may not change what is here")
        return await self._handler(request)


def _ours(request: Request, host: str) -> bool:
    """True if a page of this server asks, or no page at all."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        return site in ("same-origin", "none")
    return origin is None or urlsplit(origin).netloc == host


def _name(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:  # half an address in brackets
        return None
