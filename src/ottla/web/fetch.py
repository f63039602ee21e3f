"""One question to another program's HTTP server, or the content of a file by its URL: bounded, without redirects."""

from __future__ import annotations

import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

MOST_BYTES = 1 << 20
SCHEMES = ("https", "http", "file")


class FetchFailed(Exception):
    """Nothing could be had; `passing`: it may be another time."""

    def __init__(self, why: str, *, passing: bool = True) -> None:
        super().__init__(why)
        self.passing = passing


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *arguments: Any, **named: Any) -> None:
        """A server that is allowed must not send us to one that is not."""
        return None


_opener = urllib.request.build_opener(_NoRedirect)
_PASSING = (408, 429)


def fetched(
    url: str, timeout_s: float, *, form: bytes | None = None, headers: Mapping[str, str] | None = None
) -> bytes:
    """The content at a URL; with `form` by POST. FetchFailed says why there is none, without what was sent."""
    scheme = urlsplit(url).scheme
    if scheme == "file":
        return _content(url)
    if scheme not in SCHEMES:
        raise FetchFailed(f"{url}: its scheme must be one of {', '.join(SCHEMES)}", passing=False)
    request = urllib.request.Request(url, data=form, headers={"Accept": "application/json", **(headers or {})})
    try:
        with _opener.open(request, timeout=timeout_s) as answer:
            content = _read(answer, url, time.monotonic() + timeout_s)
    except urllib.error.HTTPError as fault:
        with fault:
            passing = fault.code >= 500 or fault.code in _PASSING
            raise FetchFailed(f"{url} answered {fault.code} {fault.reason}", passing=passing) from None
    except (OSError, http.client.HTTPException, ValueError) as fault:
        why = fault.reason if isinstance(fault, urllib.error.URLError) else fault
        raise FetchFailed(f"{url} cannot be asked: {why}") from None
    return _bounded(url, content)


def _read(answer: http.client.HTTPResponse, url: str, until_s: float) -> bytes:
    """All that comes, up to a limit: a server that sends a byte now and then must not hold the thread."""
    content = b""
    while len(content) <= MOST_BYTES and (more := answer.read1(1 << 16)):
        content += more
        if time.monotonic() > until_s:
            raise FetchFailed(f"{url} sends too slowly")
    if answer.length and len(content) <= MOST_BYTES:
        raise FetchFailed(f"{url} ended {answer.length} bytes before the end of its content")
    return content


def path_of(url: str) -> str:
    """The path of a `file:` URL; ValueError for one of another machine or without a path."""
    parts = urlsplit(url)
    if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
        raise ValueError(f"{url} must be file:///PATH")
    return unquote(parts.path)


def _content(url: str) -> bytes:
    try:
        with open(path_of(url), "rb") as file:
            return _bounded(url, file.read(MOST_BYTES + 1))
    except (OSError, ValueError) as fault:
        raise FetchFailed(f"{url} cannot be read: {getattr(fault, 'strerror', None) or fault}") from None


def _bounded(url: str, content: bytes) -> bytes:
    if len(content) > MOST_BYTES:
        raise FetchFailed(f"{url} holds more than {MOST_BYTES} bytes", passing=False)
    return content
