"""The users of a console: one desk for all; where users log in, one for each session, as that user of the brokers."""

from __future__ import annotations

import asyncio
import hmac
import secrets
import time
from http.cookies import CookieError, SimpleCookie

from ottla.client.errors import ClientError
from ottla.console.desk import ConsoleSetting, Desk
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
        self._common = None if setting.login else Desk(setting)

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
        desk = self._open.get(_cookie(request))
        if desk is not None:
            desk.used_s = time.monotonic()
        return desk

    async def log_in(self, user: str, password: str) -> str:
        """Open a session; the value of its cookie. HttpError 403 where the brokers refuse the user."""
        if not user or not password:
            raise HttpError(400, "a name and a password are needed")
        await self._end_idle()
        if len(self._open) >= _MOST:
            raise HttpError(503, f"{_MOST} users are logged in: no more can be")
        desk = Desk(self._setting, user=user, password=password)
        try:
            await desk.admin.cluster.brokers()
        except (ApiError, ClientError, ValueError) as fault:
            await desk.close()
            if isinstance(fault, ApiError) and fault.code in _DENIED:
                raise HttpError(403, "the brokers refuse this name and password") from None
            raise HttpError(502, f"nobody can log in now: {fault}") from None
        name = secrets.token_urlsafe(32)
        self._open[name] = desk
        return name

    async def log_out(self, request: Request) -> None:
        """End the session of a request."""
        desk = self._open.pop(_cookie(request), None)
        if desk is not None:
            await desk.close()

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


def _cookie(request: Request) -> str:
    try:
        found = SimpleCookie(request.headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found is not None else ""
