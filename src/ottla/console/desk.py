"""A cluster as one user of the console sees it: its clients, and what the pages may show and change."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ottla.client import oauth
from ottla.client.aio.admin import Admin
from ottla.client.errors import ClientError, refused
from ottla.client.model import ClientSettings, TopicView
from ottla.client.registry_client import RegistryClient
from ottla.client.security import OAUTHBEARER, Security
from ottla.console.beside import credential_of
from ottla.console.links import LinkedServer
from ottla.console.masks import Masks
from ottla.console.provider import ProviderSetting, UserTokens
from ottla.console.values import Decode, Viewer
from ottla.console.watch import ClusterWatch
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.web.credentials import Credential
from ottla.web.exchange import HttpError

if TYPE_CHECKING:
    from ottla.pipeline.reading import PipelineFile

Decoding = Callable[[RegistryClient], Decode]
"""Makes the reader of values by the schemas of a registry, as one user sees them."""
_FRESH_S, _OLD_S = 5.0, 30.0
_MOST_SEARCHES = 50


@dataclass(frozen=True, slots=True)
class ConsoleSetting:
    """A console as it was started: the same for all users."""

    bootstrap: str
    client: ClientSettings = field(default_factory=lambda: ClientSettings(client_id="ottla-console"))
    registry: RegistryClient | None = None
    connect: tuple[LinkedServer, ...] = ()
    read_only: bool = False
    shows_records: bool = True
    masks: Masks = field(default_factory=Masks)
    login: str = ""
    """The mechanism by which users log in with a name and a password; empty: nobody can."""
    decoding: Decoding | None = None
    """None: values are not decoded by schemas."""
    streams: tuple[LinkedServer, ...] = ()
    lakes: tuple[str, ...] = ()
    pipelines: tuple[PipelineFile, ...] = ()
    audit_log: tuple[str, ...] = ()
    """The files of a broker's audit log, the oldest first."""
    provider: ProviderSetting | None = None
    """The identity provider at which users log in; None: at none."""
    insecure: bool = False
    """True if the registry and the workers get credentials by plain http, too, where they are other machines."""

    @property
    def asks(self) -> bool:
        """True if users have to log in."""
        return bool(self.login) or self.provider is not None


class Desk:
    """The clients of one user. A change needs the token, which stands in this user's pages alone."""

    def __init__(
        self, setting: ConsoleSetting, *, user: str = "", password: str = "", tokens: UserTokens | None = None
    ) -> None:
        """The desk of a user with a password, or with tokens of the provider; without either, the console's own."""
        self.setting, self.tokens = setting, tokens
        self.user = user if tokens is None else tokens.user.name
        self.client = client = replace(setting.client, security=_security(setting, user, password, tokens))
        self.admin = Admin(setting.bootstrap, settings=client)
        self.watch = ClusterWatch(self.admin)
        self._registry, self.workers = setting.registry, setting.connect
        self._is_of_user = bool(self.user)
        if self._is_of_user:
            shown = credential_of(self.user, client.security, tokens, insecure=setting.insecure)
            self._registry = None if setting.registry is None else setting.registry.asked_by(shown)
            self.workers = tuple(link.asked_by(shown) for link in setting.connect)
        self._decode: Decode | None = None
        if setting.decoding is not None and self._registry is not None:
            self._decode = setting.decoding(self._registry)
        self.token = secrets.token_urlsafe(24)
        self.searches: dict[str, object] = {}
        self.used_s = time.monotonic()
        self._topics: dict[str, TopicView] = {}
        self._topics_s = float("-inf")
        self._asking: asyncio.Task[None] | None = None

    async def close(self) -> None:
        """Close the connections."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait({self._asking})
        await self.watch.close()
        await self.admin.close()
        if self._is_of_user:
            self._close_own()
        if self.client.security.tokens is not None and self.tokens is not None:
            oauth.forget(self.client.security.tokens)

    def _close_own(self) -> None:
        for link in self.workers:
            link.close()
        if self._registry is not None:
            self._registry.close()

    @property
    def is_over(self) -> bool:
        """True if its user must log in again: the provider's tokens have expired."""
        return self.tokens is not None and self.tokens.has_expired()

    async def topics(self) -> dict[str, TopicView]:
        """All topics, as they were some seconds ago: with thousands of them a page does not wait for the answer.

        They are asked for again after five seconds, beside the page; after half a minute the page waits.
        """
        age_s = time.monotonic() - self._topics_s
        if age_s > _OLD_S:
            await self._ask_topics()
        elif age_s > _FRESH_S and self._asking is None:
            self._asking = asyncio.create_task(self._ask_beside())
        return self._topics

    async def _ask_topics(self) -> None:
        self._topics, self._topics_s = await self.admin.list_topics(), time.monotonic()

    async def _ask_beside(self) -> None:
        try:
            await self._ask_topics()
        except (ApiError, ClientError):
            self.changed()  # the next page asks itself, and shows the error
        finally:
            self._asking = None

    async def topic(self, name: str) -> TopicView:
        """One topic, which may have been made a moment ago; UNKNOWN_TOPIC_OR_PARTITION where there is none."""
        known = (await self.topics()).get(name)
        if known is None or any(part.leader < 0 for part in known.partitions.values()):
            self.changed()
        view = (await self.topics()).get(name)
        if view is None or view.error:
            raise refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r}")
        return view

    def changed(self) -> None:
        """A change was made: what is known of topics is old."""
        self._topics_s = float("-inf")

    def viewer(self, topic: str) -> Viewer:
        """Reads records of a topic; HttpError 403 where the console shows none."""
        if not self.setting.shows_records:
            raise HttpError(403, "this console was started with --no-data: it shows no records")
        return Viewer(self._decode, self.setting.masks.of(topic))

    def registry(self) -> RegistryClient:
        """The registry, asked by this user; HttpError 404 where none was given."""
        if self._registry is None:
            raise HttpError(404, "no schema registry was given: start the console with --registry URL")
        return self._registry

    def keep(self, search: object) -> str:
        """Keep a search, so that it can go on; the name to ask for it. The oldest is forgotten beyond some."""
        while len(self.searches) >= _MOST_SEARCHES:
            del self.searches[next(iter(self.searches))]
        name = secrets.token_urlsafe(12)
        self.searches[name] = search
        return name


def _security(setting: ConsoleSetting, user: str, password: str, tokens: UserTokens | None) -> Security:
    """A user's way to the brokers; trust and encryption are the console's."""
    own = setting.client.security
    protocol = "SASL_SSL" if own.protocol.endswith("SSL") else "SASL_PLAINTEXT"
    if tokens is not None:
        return Security(protocol, own.tls, OAUTHBEARER, tokens=oauth.TokenSource(call=tokens))
    return Security(protocol, own.tls, setting.login, user, password) if user else own


def links(urls: Sequence[str], credential: Credential | None = None) -> tuple[LinkedServer, ...]:
    """The servers of these URLs, which may ask who calls; ValueError for one that is no URL."""
    return tuple(LinkedServer(url, credential) for url in urls)
