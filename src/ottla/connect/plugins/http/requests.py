"""Requests over one connection that is kept open, and the meaning of their answers."""

from __future__ import annotations

import asyncio
import http.client
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

from ottla.connect.errors import RetriableException

_OF_ALL = frozenset({401, 403})
"""Answers about the options of the connector rather than about a record."""
_SHOWN_BYTES = 300
log = logging.getLogger("ottla.connect")


@dataclass(frozen=True, slots=True)
class Answer:
    """The service's answer; status 0 if there was none."""

    status: int
    reason: str
    retry_after_ms: int = 0
    content: bytes = field(default=b"", repr=False)

    @property
    def taken(self) -> bool:
        """True if the service has the records."""
        return 200 <= self.status < 300

    @property
    def may_pass(self) -> bool:
        """True if the same request may be taken later."""
        return self.status in (0, 408, 429) or self.status >= 500

    @property
    def is_of_all(self) -> bool:
        """True if every other record would get the same answer."""
        return self.status in _OF_ALL or self.status < 400


@dataclass(frozen=True, slots=True)
class Fetched:
    """An answer with its content."""

    answer: Answer
    headers: Mapping[str, str]
    """By their names in lower case."""
    body: bytes


class Service:
    """A web service. Its methods block."""

    def __init__(self, url: str, timeout_s: float) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self.name = f"{parts.scheme}://{parts.netloc}"
        self.target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(parts.hostname, parts.port, timeout=timeout_s)

    def ask(self, method: str, target: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """Send one request and read its answer to the end."""
        return self._exchange(method, target, body, headers, None).answer

    def fetch(self, target: str, headers: Mapping[str, str], most: int) -> Fetched:
        """Ask for content of so many bytes at most; more is no answer."""
        return self._exchange("GET", target, None, headers, most)

    def _exchange(
        self, method: str, target: str, body: bytes | None, headers: Mapping[str, str], most: int | None
    ) -> Fetched:
        try:
            self._connection.request(method, target, body, dict(headers))
            found = self._connection.getresponse()
            content = found.read(None if most is None else most + 1)
            if most is not None and len(content) > most:
                self._connection.close()
                return Fetched(Answer(413, f"the answer has more than {most} bytes: raise http.max.bytes"), {}, b"")
        except (OSError, http.client.HTTPException) as fault:
            self._connection.close()
            return Fetched(Answer(0, f"no answer ({fault or type(fault).__name__})"), {}, b"")
        answer = _meaning(found, content)
        return Fetched(answer, {name.lower(): value for name, value in found.headers.items()}, content)

    def close(self) -> None:
        """End the connection."""
        self._connection.close()


class Waits:
    """The waits before one request is sent again: each is twice the one before, up to a limit."""

    def __init__(self, retries: int, first_ms: int, most_ms: int) -> None:
        self.left = retries
        self._next_ms, self._most_ms = first_ms, most_ms

    async def again(self, why: str, at_least_ms: int) -> None:
        """Wait, at least as long as the service asks for; RetriableException if no attempt is left."""
        if not self.left:
            raise RetriableException(why)
        wait_ms = max(min(self._next_ms, self._most_ms), at_least_ms)
        log.warning("%s; sending again in %d ms", why, wait_ms)
        await asyncio.sleep(wait_ms / 1000)
        self.left, self._next_ms = self.left - 1, self._next_ms * 2


def _meaning(found: http.client.HTTPResponse, content: bytes) -> Answer:
    shown = content[:_SHOWN_BYTES].decode("utf-8", "replace").strip()
    if 300 <= found.status < 400:
        shown = f"it moved to {found.headers.get('Location')}: set the address to that"
    after = retry_after_ms(found.headers.get("Retry-After", ""), now_s=time.time())
    return Answer(found.status, f"{found.status} {found.reason}: {shown}", after, content)


def retry_after_ms(text: str, *, now_s: float) -> int:
    """The wait that a service asks for, in seconds or as a date; 0 if it asks for none that is understood."""
    if text.isascii() and text.isdigit():
        return int(text) * 1000
    try:
        return max(0, int((parsedate_to_datetime(text).timestamp() - now_s) * 1000))
    except ValueError:
        return 0
