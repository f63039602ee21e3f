"""The client of a schema registry: schemas by id, the latest of a subject, registering, and any request of its API.

Speaks the REST API of Confluent's registry, which others have too. Schemas never change under their id, so each is
fetched once by a client. Credentials come from the environment: options are shown in Spark's plans. A program that
asks for several users gives a client for each.
`AsyncRegistryClient` is its asyncio face.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

from ottla.formats.faults import UnknownSchema
from ottla.formats.writer import WriterSchema
from ottla.web import credentials as web_credentials
from ottla.web.credentials import REFUSED, Credential, NoCredential

R = TypeVar("R")

USER, PASSWORD, TOKEN = "OTTLA_REGISTRY_USER", "OTTLA_REGISTRY_PASSWORD", "OTTLA_REGISTRY_TOKEN"
ROUNDS = 4
"""The number of times that all URLs are tried before the registry counts as unavailable."""
FIRST_PAUSE_SECONDS = 0.2
MISSING_SECONDS = 30.0
"""The time for which an unknown id is not asked for again: a bad record must not cost a request each."""
MOST_REFERENCES = 1000
_JSON = "application/vnd.schemaregistry.v1+json"
_RETRIED = frozenset({408, 429})
_SERVER = "the schema registry"


class RegistryUnavailable(OSError):
    """No URL gave an answer; the task may be tried again."""


class RegistryRefusal(ValueError):
    """The registry answered with a refusal. The text is a sentence, `message` the registry's own words."""

    def __init__(self, status: int, code: int, message: str, sentence: str = "") -> None:
        super().__init__(sentence or f"the schema registry answers {status} ({code}): {message}")
        self.status, self.code, self.message = status, code, message


@dataclass(frozen=True, slots=True)
class Registered:
    """A version of a subject."""

    subject: str
    version: int
    schema_id: int
    schema: WriterSchema


def registry_urls(text: str, option: str = "Option 'registry.url'") -> tuple[str, ...]:
    """The URLs of an option, comma-separated; ValueError names the fault in them, and the option."""
    urls = tuple(url.strip().rstrip("/") for url in text.split(",") if url.strip())
    if not urls:
        raise ValueError(f"{option} names no URL")
    for url in urls:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{option} takes http:// and https:// URLs, got '{url}'")
        if parts.username is not None or parts.password is not None:
            raise ValueError(
                f"{option} must not hold credentials: set {USER} and {PASSWORD}, or {TOKEN}, in the environment "
                "(with Spark in that of the driver and the executors)"
            )
    return urls


@dataclass(slots=True)
class RegistryClient:
    """One process's client; safe for several threads."""

    urls: tuple[str, ...]
    rounds: int = ROUNDS
    credential: Credential | None = None
    """The caller; None: the one that the environment names when a request is sent."""
    unseen: frozenset[int] = frozenset({404})
    """The statuses of a refusal that count as "there is no such schema"."""
    _schemas: dict[int | str, WriterSchema] = field(default_factory=dict)
    _missing: dict[int | str, tuple[float, str]] = field(default_factory=dict)
    _pool: Any = None
    _first: int = 0

    def schema(self, name: int | str) -> WriterSchema:
        """The schema of an id, or of a GUID, with all that it refers to; `UnknownSchema` where there is none."""
        found = self.known(name)
        if found is not None:
            return found
        until, reason = self._missing.get(name, (0.0, ""))
        if time.monotonic() < until:
            raise UnknownSchema(reason)
        try:
            found = self._with_references(
                self._ask("GET", f"/schemas/{'ids' if isinstance(name, int) else 'guids'}/{name}")
            )
        except RegistryRefusal as fault:
            if fault.status not in self.unseen:
                raise
            self._missing[name] = (time.monotonic() + MISSING_SECONDS, str(fault))
            raise UnknownSchema(str(fault)) from None
        self._schemas[name] = found
        return found

    def asked_by(self, credential: Credential) -> RegistryClient:
        """A client of the same registry for another caller, who is shown nothing that this one was shown."""
        return replace(self, credential=credential, _schemas={}, _missing={}, _pool=None)

    def close(self) -> None:
        """Close the connections. A later request opens new ones."""
        if self._pool is not None:
            self._pool.clear()

    def known(self, name: int | str) -> WriterSchema | None:
        """The schema of an id or GUID that was fetched before."""
        return self._schemas.get(name)

    def latest(self, subject: str) -> Registered:
        """The latest version of a subject; `UnknownSchema` where there is none."""
        try:
            answer = self._ask("GET", f"/subjects/{quote(subject, safe='')}/versions/latest")
        except RegistryRefusal as fault:
            if fault.status == 404:
                raise UnknownSchema(f"subject {subject}: {fault}") from None
            raise
        schema = self._with_references(answer)
        return Registered(subject, int(answer["version"]), int(answer["id"]), schema)

    def register(self, subject: str, schema: WriterSchema) -> int:
        """The id of the schema in the subject; registers it where it is not there yet."""
        body: dict[str, object] = {"schema": schema.text}
        if schema.kind != "AVRO":
            body["schemaType"] = schema.kind
        return int(self._ask("POST", f"/subjects/{quote(subject, safe='')}/versions", body)["id"])

    def _with_references(self, answer: dict[str, Any]) -> WriterSchema:
        found: dict[str, str] = {}
        self._follow(answer, found)
        return WriterSchema(str(answer.get("schemaType") or "AVRO"), str(answer["schema"]), tuple(found.items()))

    def _follow(self, answer: dict[str, Any], found: dict[str, str]) -> None:
        """Put the schemas that a schema refers to into `found`, each behind its own references."""
        for reference in answer.get("references") or ():
            name = str(reference["name"])
            if name in found:
                continue
            if len(found) >= MOST_REFERENCES:
                raise RegistryRefusal(422, 42201, f"more than {MOST_REFERENCES} references")
            subject = quote(str(reference["subject"]), safe="")
            one = self._ask("GET", f"/subjects/{subject}/versions/{int(reference['version'])}?deleted=true")
            self._follow(one, found)
            found[name] = str(one["schema"])

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Send one request to whichever URL answers, and return its JSON; that URL is asked first the next time.

        Raises RegistryRefusal for an answer that refuses, RegistryUnavailable where no URL answers as a registry.
        """
        reasons = []
        for place, url in self._attempts():
            status, content, reason = self._try(method, url + path, body)
            if status is None or status >= 500 or status in _RETRIED:
                reasons.append(f"{url}: {reason}")
                continue
            self._first = place
            if status in REFUSED:
                raise self._refused(url, status, content, reason)
            answer = _parsed(content, url)
            if status >= 400:
                raise _refusal(status, answer, reason)
            return answer
        raise RegistryUnavailable(f"no registry answers at {', '.join(self.urls)}; the last answer: {reasons[-1]}")

    def _refused(self, url: str, status: int, content: bytes, reason: str) -> RegistryRefusal:
        """The refusal of the caller. It may come from a proxy before the registry, which answers no JSON."""
        try:
            found = _refusal(status, _parsed(content, url), reason)
        except RegistryUnavailable:
            found = RegistryRefusal(status, status, reason)
        if self.credential is None:
            return found
        sentence = self.credential.refusal(_SERVER, url, status, found.message)
        return RegistryRefusal(status, found.code, found.message, sentence)

    def _ask(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        answer = self.ask(method, path, body)
        if not isinstance(answer, dict):
            raise _no_registry(self.urls[self._first], answer)
        return answer

    def _attempts(self) -> Iterator[tuple[int, str]]:
        for round_number in range(self.rounds):
            if round_number:
                time.sleep(FIRST_PAUSE_SECONDS * 2 ** (round_number - 1))
            for step in range(len(self.urls)):
                place = (self._first + step) % len(self.urls)
                yield place, self.urls[place]

    def _try(self, method: str, url: str, body: object) -> tuple[int | None, bytes, str]:
        import urllib3

        if self._pool is None:
            timeout = urllib3.Timeout(connect=5, read=30)
            self._pool = urllib3.PoolManager(num_pools=len(self.urls), maxsize=4, retries=False, timeout=timeout)
        content = None if body is None else json.dumps(body).encode()
        try:
            shown = (self.credential or credential_of_environment()).headers(url)
        except NoCredential as fault:
            raise RegistryRefusal(401, 40101, str(fault), f"{_SERVER} is not asked: {fault}") from None
        headers = {"Accept": f"{_JSON}, application/json", "Content-Type": _JSON, **shown}
        try:
            answer = self._pool.request(method, url, body=content, headers=headers)
        except urllib3.exceptions.HTTPError as fault:
            return None, b"", str(fault)
        return answer.status, answer.data, f"{answer.status} {answer.reason or ''}".strip()


def credential_of_environment() -> Credential:
    """The caller whom the environment names; nobody's credential where it names none."""
    return web_credentials.credential_of_environment(USER, PASSWORD, TOKEN)


def _refusal(status: int, answer: Any, reason: str) -> RegistryRefusal:
    told = answer if isinstance(answer, dict) else {}
    return RegistryRefusal(status, int(told.get("error_code", status)), str(told.get("message", reason)))


def _parsed(content: bytes, url: str) -> Any:
    try:
        return json.loads(content) if content else None
    except ValueError:
        raise _no_registry(url, content) from None


def _no_registry(url: str, answer: object) -> RegistryUnavailable:
    return RegistryUnavailable(f"{url} does not answer as a schema registry does: {str(answer)[:100]!r}")


class AsyncRegistryClient:
    """A `RegistryClient` for asyncio: a schema that is known comes at once, requests go in threads."""

    def __init__(self, client: RegistryClient) -> None:
        self.client = client

    async def schema(self, name: int | str) -> WriterSchema:
        """As `RegistryClient.schema`."""
        known = self.client.known(name)
        return await _in_thread(self.client.schema, name) if known is None else known

    async def latest(self, subject: str) -> Registered:
        """As `RegistryClient.latest`."""
        return await _in_thread(self.client.latest, subject)

    async def register(self, subject: str, schema: WriterSchema) -> int:
        """As `RegistryClient.register`."""
        return await _in_thread(self.client.register, subject, schema)


async def _in_thread(call: Callable[..., R], *arguments: object) -> R:
    import asyncio

    return await asyncio.to_thread(call, *arguments)


_clients: dict[tuple[int, tuple[str, ...]], RegistryClient] = {}
_guard = threading.Lock()


def registry(urls: tuple[str, ...]) -> RegistryClient:
    """This process's client for these URLs; a forked process makes its own."""
    mine = (os.getpid(), urls)
    with _guard:
        return _clients.setdefault(mine, RegistryClient(urls))
