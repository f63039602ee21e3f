"""Follows the cluster's ACLs for an interface over HTTP, so that it acts with the rights of its callers.

The brokers are asked every `FRESH_S`; while none answers, what was read last counts for `OLDEST_S`. Then nobody may do
anything.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from ottla.access.names import ANONYMOUS, UnknownName, distinguished_name, mapping
from ottla.access.rules import Rules
from ottla.client.admin.acls import Authorizer, describe_acls, describe_authorizer
from ottla.client.aio.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.client.model import ClientSettings
from ottla.jobs.caller import UNLIMITED, HttpCaller
from ottla.kernel.acls import Acl
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.web.exchange import HttpError, Request

FRESH_S: Final = 3.0
"""The time between two looks at the ACLs: a change counts for the requests after the next one."""
OLDEST_S: Final = 60.0
"""The age at which rights that cannot be read anew count no more."""
MAPPING_RULES: Final = "ssl.principal.mapping.rules"
_ASK_S: Final = 10.0
"""A look that takes longer has failed."""
CallerOf = Callable[[Request], Awaitable[HttpCaller]]
"""Tells the caller of a request; HttpError refuses it."""

log = logging.getLogger(__name__)


class RightsUnreadable(ValueError):
    """The brokers do not show this program the ACLs by which its callers are to be judged."""


async def anybody(_request: Request) -> HttpCaller:
    """The caller where nobody is asked who they are: it may do everything."""
    return UNLIMITED


def asks(tls: Mapping[str, str], *files: str | None) -> bool:
    """True if an interface knows its callers: by files, of users and of options of tokens, or by certificates."""
    return any(files) or tls.get("ssl.client.auth", "none").strip() != "none"


class CallerRights:
    """Tells the caller of a request. An async context manager; open it on the loop that serves.

    It needs DESCRIBE and DESCRIBE_CONFIGS on the cluster for its own user.
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        settings: ClientSettings | None = None,
        *,
        mapping_rules: str = "",
        fresh_s: float = FRESH_S,
        oldest_s: float = OLDEST_S,
    ) -> None:
        """`mapping_rules` name the owners of certificates. ValueError for rules that there are not."""
        self._cluster = Cluster(bootstrap, settings=settings)
        self._user_of = mapping(mapping_rules)
        self._fresh_s, self._oldest_s = fresh_s, oldest_s
        self._known: tuple[list[Acl], Authorizer] | None = None
        self._rules: Rules | None = None
        """None as long as the cluster has no authorizer."""
        self._read_s = float("-inf")
        self._fault: Exception | None = None
        self._looked = asyncio.Event()
        self._following: asyncio.Task[None] | None = None

    async def __aenter__(self) -> CallerRights:
        """Begin; RightsUnreadable where the brokers refuse. Brokers that are away are waited for by the requests."""
        self._following = asyncio.create_task(self._follow())
        await self._looked.wait()
        fault = self._fault
        if isinstance(fault, ApiError) and fault.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            await self.__aexit__()
            raise RightsUnreadable(
                f"callers are judged by the cluster's ACLs, which the brokers do not show to this program's user: "
                f"{fault}. Grant that user describe and describe-configs on the cluster"
            )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._following is not None:
            self._following.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._following
        await self._cluster.close()

    async def __call__(self, request: Request) -> HttpCaller:
        """The caller of a request. HttpError 503 where the rights are not known, 403 for a certificate of nobody."""
        if time.monotonic() - self._read_s > self._oldest_s:
            raise HttpError(
                503, f"HTTP 503 Service Unavailable: the rights of callers cannot be read: {_sentence(self._fault)}"
            )
        return HttpCaller(self._principal(request), request.client, self._rules)

    def _principal(self, request: Request) -> str:
        if request.user:
            return f"User:{request.user}"
        if not request.subject:
            return ANONYMOUS
        try:
            name = distinguished_name(request.subject)
        except UnknownName as fault:
            raise HttpError(403, f"HTTP 403 Forbidden: {fault}") from None
        user = self._user_of(name)
        if not user:
            raise HttpError(403, f"HTTP 403 Forbidden: no rule of {MAPPING_RULES} gives {name} a name")
        return f"User:{user}"

    async def _follow(self) -> None:
        while True:
            try:
                async with asyncio.timeout(_ASK_S):
                    await self._look()
                self._fault = None
            except (ApiError, ClientError, TimeoutError, ValueError) as fault:  # ValueError: an ACL of a later release
                if self._fault is None:
                    log.warning("the rights of callers cannot be read: %s", _sentence(fault))
                self._fault = fault
            self._looked.set()
            await asyncio.sleep(self._fresh_s)

    async def _look(self) -> None:
        began_s, plan = time.monotonic(), self._cluster.plan
        try:
            acls = await self._cluster.run(describe_acls(plan))
        except ApiError as fault:
            # A broker that lost its authorizer alone must not open what was closed: this counts at a start only.
            if fault.code is not ErrorCode.SECURITY_DISABLED or self._known is not None:
                raise
        else:
            found = acls, await self._cluster.run(describe_authorizer(plan))
            if found != self._known:
                authorizer = found[1]
                self._rules = Rules(
                    acls, super_users=authorizer.super_users, open_without_acl=authorizer.open_without_acl
                )
                self._known = found
        self._read_s = began_s


def _sentence(fault: Exception | None) -> str:
    return str(fault) or "no broker answers in time"
