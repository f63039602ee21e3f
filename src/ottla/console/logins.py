"""Lets users log in and out: by a name and a password of the brokers, or at an identity provider."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import TypeVar

from ottla.access.openid import LOGIN_S, LoginRefused, begun
from ottla.console.desk import ConsoleSetting, Desk
from ottla.console.provider import CALLBACK, IdentityProvider, ProviderFailed
from ottla.console.sessions import Sessions, cookie, cookie_of, is_token
from ottla.console.view import PageQuery, View, see
from ottla.web.exchange import Handler, HttpError, Request, Response

LOGIN_COOKIE = "ottla_console_login"
_AT_ONCE, _MOST_WAITING = 2, 20
"""Logins that ask the provider at a time, each in a thread; and those that may wait for that."""

Result = TypeVar("Result")
Draw = Callable[[View, Desk | None, Request], Response]


class Logins:
    """The handlers of one console. `secure`: browsers come by HTTPS."""

    def __init__(self, setting: ConsoleSetting, sessions: Sessions, draw: Draw, *, secure: bool) -> None:
        self._setting = setting
        self._sessions = sessions
        self._draw = draw
        self._scheme = "https" if secure else "http"
        redirect = setting.provider.redirect_url if setting.provider is not None else ""
        self._secure = secure or redirect.startswith("https:")
        self._provider = None if setting.provider is None else IdentityProvider(setting.provider)
        self._asking = asyncio.Semaphore(_AT_ONCE)
        self._waiting = 0

    def table(self) -> dict[str, dict[str, Handler]]:
        """The handlers by path and method."""
        return {
            "login": {"GET": self._page, "POST": self._by_password},
            "login/provider": {"GET": self._to_provider},
            CALLBACK.strip("/"): {"GET": self._from_provider},
            "logout": {"POST": self._log_out},
        }

    async def _page(self, request: Request) -> Response:
        request.query(())
        if not self._setting.asks:
            raise HttpError(404, "nobody logs in to this console: it was started without --login and --oidc-issuer")
        issuer = self._setting.provider.issuer if self._setting.provider is not None else ""
        view = View("login.html", "Log in", {"mechanism": self._setting.login, "issuer": issuer})
        return self._draw(view, None, request)

    async def _by_password(self, request: Request) -> Response:
        if not self._setting.login:
            raise HttpError(404, "nobody logs in to this console with a password: it was started without --login")
        form = PageQuery.of_form(request)
        name = await self._sessions.log_in(form.text("user"), form.given.get("password", ""))
        return see("/", cookie(name, secure=self._secure))

    async def _to_provider(self, request: Request) -> Response:
        """Begin a login: the browser keeps a text of it, and goes to the provider."""
        provider = self._known()
        kept = begun(secrets.token_urlsafe(32), provider.wall_s())
        attempt, redirect = provider.attempt(kept), self._redirect_url(request)
        url = await self._asked(lambda: provider.authorization_url(attempt, redirect))
        return see(url, self._login_cookie(kept))

    async def _from_provider(self, request: Request) -> Response:
        """End a login: a code becomes tokens, and these a session.

        The answer is a page that goes on by itself: a browser that was sent on from another site would not send a
        cookie with SameSite=Strict.
        """
        provider = self._known()
        kept, redirect = cookie_of(request, LOGIN_COOKIE), self._redirect_url(request)
        try:
            code = provider.code_of(request.query(), kept)
        except LoginRefused as refusal:
            raise HttpError(403, str(refusal)) from None
        tokens = await self._asked(lambda: provider.redeem(code, provider.attempt(kept), redirect))
        name = await self._sessions.log_in_by(tokens)
        response = self._draw(View("logged_in.html", f"Logged in as {tokens.user.name}", {}), None, request)
        response.headers += (cookie(name, secure=self._secure), self._login_cookie(""))
        return response

    async def _log_out(self, request: Request) -> Response:
        desk = await self._sessions.desk(request)
        if desk is None:
            raise HttpError(401, "log in first: /login")
        if not is_token(desk, PageQuery.of_form(request).given.get("token", "")):
            raise HttpError(403, "the form is not of this session")
        url = await self._sessions.log_out(request)
        gone = cookie("", secure=self._secure)
        if not url:
            return see("/login", gone)
        values = {"end_session": url, "issuer": self._known().setting.issuer}
        response = self._draw(View("logged_out.html", "Logged out", values), None, request)
        response.headers += (gone,)
        return response

    def _known(self) -> IdentityProvider:
        if self._provider is None:
            raise HttpError(404, "this console knows no identity provider: it was started without --oidc-issuer")
        return self._provider

    def _redirect_url(self, request: Request) -> str:
        """The address to which the provider sends the browser back. The name in it was checked by the guard."""
        assert self._setting.provider is not None
        own = f"{self._scheme}://{request.headers.get('host', '')}{CALLBACK}"
        return self._setting.provider.redirect_url or own

    async def _asked(self, ask: Callable[[], Result]) -> Result:
        """The result of a call that waits for the provider, in a thread; HttpError where it fails."""
        if self._waiting >= _MOST_WAITING:
            raise HttpError(503, "many users log in at this moment: try again")
        self._waiting += 1
        try:
            async with self._asking:
                return await asyncio.to_thread(ask)
        except ProviderFailed as fault:
            raise HttpError(502, f"nobody can log in there now: {fault}") from None
        finally:
            self._waiting -= 1

    def _login_cookie(self, kept: str) -> tuple[str, str]:
        """The header that gives a browser the text of a login, or takes it away. It comes back from another site."""
        secure = "; Secure" if self._secure else ""
        age_s = LOGIN_S if kept else 0
        return "Set-Cookie", f"{LOGIN_COOKIE}={kept}; Path=/login; HttpOnly; SameSite=Lax; Max-Age={age_s}{secure}"
