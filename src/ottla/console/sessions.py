"""The users of a console: one desk for all; where users log in, one for each session, as that user of the brokers."""

from __future__ import annotations

import asyncio
import hmac
import secrets
import time
from http.cookies import CookieError, SimpleCookie

from ottla.client.errors import ClientError
from ottla.console.desk import ConsoleSetting, Desk
from ottla.console.provider import UserTokens
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.web.exchange import HttpError, Request

COOKIE = "ottla_console"
IDLE_S = 1_800.0
"""A session ends when it is not used for so long."""
_MOST = 200
_DENIED = (ErrorCode.SASL_AUTHENTICATION_FAILED, ErrorCode.ILLEGAL_SASL_STATE, ErrorCode.UNSUPPORTED_SASL_MECHANISM)


class Sessions:
    """The desks of a console. Sessions are in memory: all users log in again after a restart."""

    def __init__(self, setting: ConsoleSetting) -> None:
        self._setting = setting
        self._open: dict[str, Desk] = {}
        self._common = None if setting.asks else Desk(setting)

    async def close(self) -> None:
        """End all sessions."""
        for desk in [*self._open.values(), *([self._common] if self._common else [])]:
            await desk.close()
        self._open.clear()

    async def desk(self, request: Request) -> Desk | None:
        """The desk of a request; None where its user has to log in."""
        if self._common is not None:
            return self._common
        await self._end_idle()
        name = cookie_of(request, COOKIE)
        desk = self._open.get(name)
        if desk is None or await self._has_ended(name, desk):
            return None
        desk.used_s = time.monotonic()
        return desk

    async def log_in(self, user: str, password: str) -> str:
        """Open a session; the value of its cookie. HttpError 403 where the brokers refuse the user."""
        if not user or not password:
            raise HttpError(400, "a name and a password are needed")
        return await self._begin("the brokers refuse this name and password", user=user, password=password)

    async def log_in_by(self, tokens: UserTokens) -> str:
        """Open the session of a user of the identity provider; HttpError 403 where the brokers refuse the token."""
        issuer, name = tokens.provider.setting.issuer, tokens.user.name
        why = f"{issuer} let {name} log in, but the brokers do not take the token. Their log says why."
        return await self._begin(why, tokens=tokens)

    async def log_out(self, request: Request) -> str:
        """End the session of a request; the address at which its user logs out at the provider, or an empty text."""
        desk = self._open.pop(cookie_of(request, COOKIE), None)
        if desk is None:
            return ""
        await desk.close()
        return await asyncio.to_thread(desk.tokens.end) if desk.tokens is not None else ""

    async def _begin(
        self, refusal: str, *, user: str = "", password: str = "", tokens: UserTokens | None = None
    ) -> str:
        await self._end_idle()
        if len(self._open) >= _MOST:
            raise HttpError(503, f"{_MOST} users are logged in: no more can be")
        desk = Desk(self._setting, user=user, password=password, tokens=tokens)
        try:
            await desk.admin.cluster.brokers()
        except (ApiError, ClientError, ValueError) as fault:
            await desk.close()
            if isinstance(fault, ApiError) and fault.code in _DENIED:
                raise HttpError(403, refusal) from None
            raise HttpError(502, f"nobody can log in now: {fault}") from None
        name = secrets.token_urlsafe(32)
        self._open[name] = desk
        return name

    async def _has_ended(self, name: str, desk: Desk) -> bool:
        """True if the user's token has expired, and the provider gives no newer one: the session ends."""
        if not desk.is_over or desk.tokens is None:
            return False
        await asyncio.to_thread(desk.tokens.renew)
        if not desk.is_over:
            return False
        if self._open.pop(name, None) is not None:
            await desk.close()
        return True

    async def _end_idle(self) -> None:
        now = time.monotonic()
        idle = [name for name, desk in self._open.items() if now - desk.used_s > IDLE_S]
        await asyncio.gather(*(self._open.pop(name).close() for name in idle))


def cookie(value: str, *, secure: bool) -> tuple[str, str]:
    """The header that gives a browser its session, or with an empty value takes it away."""
    age = "" if value else "; Max-Age=0"
    return "Set-Cookie", f"{COOKIE}={value}; Path=/; HttpOnly; SameSite=Strict{'; Secure' if secure else ''}{age}"


def is_token(desk: Desk, given: str) -> bool:
    """True if a form came from a page of this desk."""
    return hmac.compare_digest(desk.token.encode(), given.encode())


def cookie_of(request: Request, name: str) -> str:
    """The value of a cookie that the browser sent; empty where there is none."""
    try:
        found = SimpleCookie(request.headers.get("cookie", "")).get(name)
    except CookieError:
        return ""
    return found.value if found is not None else ""
