"""The identity provider of a console (OpenID Connect): its addresses and keys, codes and their tokens, newer tokens.

All calls may wait for the provider, so they are for threads. `access/openid.py` has what is asked and what is answered.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ottla.access.id_tokens import IdToken, IdTokenRules, judge_id_token
from ottla.access.mechanisms.oauthbearer import NotTaken
from ottla.access.openid import (
    LoginAttempt,
    ProviderEndpoints,
    TokenAnswer,
    WrongAnswer,
    authorization_url,
    code_of,
    discovery_url,
    end_session_url,
    issuer_refusal,
    login_attempt,
    read_endpoints,
    read_tokens,
    token_request,
    unsafe_url,
)
from ottla.client.oauth import TokenUnavailable
from ottla.config.allowed_urls import allowed_urls
from ottla.config.oauth import OauthSettings, TokenRules
from ottla.jobs.token_keys import TokenKeys
from ottla.web.fetch import FetchFailed, fetched

CALLBACK = "/login/callback"
"""The path to which the provider sends the browser back."""
_TIMEOUT_S = 10.0
_FRESH_S = 3600.0
_AGAIN_AFTER_S = 5.0
"""A provider that did not answer is not asked for its addresses again before so many seconds."""
_KEYS_FRESH_MS, _BACKOFF_MS, _BACKOFF_MAX_MS = 3_600_000, 100, 10_000
"""As brokers have them for the keys of their tokens."""
_REFRESH_PART = 4
"""A newer access token is asked for in the last quarter of the life of the one at hand."""

log = logging.getLogger("ottla.console")

Fetch = Callable[..., bytes]


class ProviderFailed(Exception):
    """The provider gave nothing that can be used; `passing`: it may another time."""

    def __init__(self, why: str, *, passing: bool) -> None:
        super().__init__(why)
        self.passing = passing


@dataclass(frozen=True, slots=True)
class ProviderSetting:
    """A provider, and this console as a client of it. ValueError names the option that is wrong."""

    issuer: str
    client_id: str
    client_secret: str = field(default="", repr=False)
    """Empty: a public client, which proves itself by PKCE alone."""
    scopes: tuple[str, ...] = ("openid",)
    principal_claim: str = "sub"
    redirect_url: str = ""
    """Empty: by the name under which the browser reached the console."""

    def __post_init__(self) -> None:
        if (why := issuer_refusal(self.issuer)) is not None:
            raise ValueError(f"--oidc-issuer: {why}")
        if not self.client_id:
            raise ValueError("--oidc-issuer needs the name of this console at the provider: --oidc-client-id")
        if "openid" not in self.scopes:
            raise ValueError("--oidc-scopes: openid must be among them, or the provider tells nobody's name")
        if not self.principal_claim:
            raise ValueError("--oidc-principal-claim: it names no claim")
        if self.redirect_url:
            why = unsafe_url(self.redirect_url)
            if why is None and not self.redirect_url.endswith(CALLBACK):
                why = f"{self.redirect_url} must end in {CALLBACK}"
            if why is not None:
                raise ValueError(f"--oidc-redirect-url: {why}")


class IdentityProvider:
    """One provider. Threads share it."""

    def __init__(
        self,
        setting: ProviderSetting,
        fetch: Fetch = fetched,
        mono_s: Callable[[], float] = time.monotonic,
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        self.setting = setting
        self.wall_s = wall_s
        self._fetch = fetch
        self._mono_s = mono_s
        self._key = secrets.token_bytes(32)
        self._rules = IdTokenRules(setting.issuer, setting.client_id, setting.principal_claim)
        self._lock = threading.Lock()
        self._known: tuple[ProviderEndpoints, TokenKeys] | None = None
        self._ask_s = float("-inf")
        """When the addresses are asked for again."""
        self._fault = ""

    def attempt(self, kept: str) -> LoginAttempt:
        """The secrets of a login, by the text that its browser keeps."""
        return login_attempt(kept, self._key)

    def authorization_url(self, attempt: LoginAttempt, redirect_url: str) -> str:
        """The address to which the browser goes; ProviderFailed where it cannot be learnt."""
        setting, (endpoints, _) = self.setting, self._found()
        return authorization_url(
            endpoints.authorization,
            attempt,
            client_id=setting.client_id,
            redirect_url=redirect_url,
            scopes=setting.scopes,
        )

    def code_of(self, given: Mapping[str, list[str]], kept: str) -> str:
        """The code that a browser brings back; `openid.LoginRefused` says why there is none."""
        return code_of(given, kept, self.attempt(kept), issuer=self.setting.issuer, now_s=self.wall_s())

    def redeem(self, code: str, attempt: LoginAttempt, redirect_url: str) -> UserTokens:
        """The tokens of the user who logged in; ProviderFailed where there are none that can be used."""
        asked_s = self.wall_s()
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect_url,
                "code_verifier": attempt.verifier}  # fmt: skip
        answer = self._tokens(form)
        return UserTokens(self, self._user(answer, nonce=attempt.nonce), answer, asked_s)

    def refreshed(self, refresh: str, user: IdToken) -> tuple[TokenAnswer, IdToken]:
        """Newer tokens of the same user; ProviderFailed where there are none, or they are somebody else's."""
        answer = self._tokens({"grant_type": "refresh_token", "refresh_token": refresh})
        if not answer.id:
            return answer, user
        found = self._user(answer, nonce=None)
        if (found.subject, found.name) != (user.subject, user.name):
            raise ProviderFailed(f"{self.setting.issuer} gave tokens of another user", passing=False)
        return answer, found

    def end_session_url(self, id_token: str) -> str:
        """The address at which the browser ends its session at the provider; empty where there is none."""
        known = self._known
        endpoint = known[0].end_session if known is not None else ""
        return endpoint and end_session_url(endpoint, client_id=self.setting.client_id, id_token=id_token)

    def _tokens(self, form: Mapping[str, str]) -> TokenAnswer:
        setting, (endpoints, _) = self.setting, self._found()
        body, headers = token_request(endpoints, form, client_id=setting.client_id, client_secret=setting.client_secret)
        url = endpoints.token
        try:
            return read_tokens(self._fetch(url, _TIMEOUT_S, form=body, headers=headers))
        except FetchFailed as fault:
            begins = form["grant_type"] == "authorization_code"
            hint = (
                "; check the client's id, its secret and its redirect URL there" if begins and not fault.passing else ""
            )
            raise ProviderFailed(f"{fault}{hint}", passing=fault.passing) from None
        except WrongAnswer as fault:
            raise ProviderFailed(f"the answer of {url} cannot be used: {fault}", passing=False) from None

    def _user(self, answer: TokenAnswer, *, nonce: str | None) -> IdToken:
        if not answer.id:
            raise ProviderFailed(f"{self.setting.issuer} gave no ID token", passing=False)
        found = self._found()[1].judged(
            lambda keys, now_s: judge_id_token(
                answer.id, keys, self._rules, now_s, nonce=nonce, access_token=answer.access
            )
        )
        if isinstance(found, NotTaken):
            raise ProviderFailed(f"the ID token of {self.setting.issuer} is not taken: {found.why}", passing=False)
        return found

    def _found(self) -> tuple[ProviderEndpoints, TokenKeys]:
        """The addresses and keys, by the discovery document; those at hand stay where it cannot be had."""
        with self._lock:
            if self._mono_s() >= self._ask_s:
                self._look()
            if self._known is None:
                raise ProviderFailed(self._fault, passing=True)
            return self._known

    def _look(self) -> None:
        issuer, self._fault = self.setting.issuer, ""
        url = discovery_url(issuer)
        try:
            endpoints = read_endpoints(self._fetch(url, _TIMEOUT_S), issuer, allowed_urls())
        except FetchFailed as fault:
            self._fault = str(fault)
        except WrongAnswer as fault:
            self._fault = f"{url} cannot be used: {fault}"
        if self._fault:
            log.warning("the identity provider's addresses: %s", self._fault)
            self._ask_s = self._mono_s() + _AGAIN_AFTER_S
            return
        self._ask_s = self._mono_s() + _FRESH_S
        if self._known is None or self._known[0].keys != endpoints.keys:
            # Its own rules are not asked: `judge_id_token` has others.
            settings = OauthSettings(endpoints.keys, _KEYS_FRESH_MS, _BACKOFF_MS, _BACKOFF_MAX_MS, TokenRules())
            keys = TokenKeys(settings, self._fetch, self._mono_s, self.wall_s)
        else:
            keys = self._known[1]
        self._known = endpoints, keys


class UserTokens:
    """The tokens of one user. The client calls it before each login at a broker, as an `oauth_cb`."""

    def __init__(self, provider: IdentityProvider, user: IdToken, answer: TokenAnswer, asked_s: float) -> None:
        self.provider, self.user = provider, user
        self._lock = threading.Lock()
        self._id_token = ""
        self._access, self._refresh = "", ""
        self._expires_s = self._refresh_s = 0.0
        self._take(answer, user, asked_s)

    def __call__(self, config: str) -> tuple[str, float]:
        """An access token and the wall time of its end, newer than before where that is due."""
        with self._lock:
            if self._refresh and self.provider.wall_s() >= self._refresh_s:
                self._renew()
            if self.has_expired():
                raise TokenUnavailable(f"the login at {self.provider.setting.issuer} is over", passing=False)
            return self._access, self._expires_s

    def has_expired(self) -> bool:
        """True if the access token at hand is not good any more."""
        return self.provider.wall_s() >= self._expires_s

    def renew(self) -> None:
        """Ask for a newer access token where the one at hand has expired."""
        with self._lock:
            if self._refresh and self.has_expired():
                self._renew()

    def end(self) -> str:
        """Forget the tokens; the address at which the browser ends its session at the provider, or an empty text."""
        with self._lock:
            url = self.provider.end_session_url(self._id_token)
            self._id_token = self._access = self._refresh = ""
            self._expires_s = 0.0
            return url

    def _renew(self) -> None:
        asked_s = self.provider.wall_s()
        try:
            self._take(*self.provider.refreshed(self._refresh, self.user), asked_s)
        except ProviderFailed as fault:
            log.warning("no newer token for User:%s: %s", self.user.name, fault)
            if not fault.passing:
                self._refresh = ""
            self._refresh_s = asked_s + _AGAIN_AFTER_S

    def _take(self, answer: TokenAnswer, user: IdToken, asked_s: float) -> None:
        """Keep the tokens of an answer; where it does not say how long they live, as long as the ID token."""
        life_s = user.expires_s - asked_s if answer.lives_s is None else answer.lives_s
        self._access, self._expires_s = answer.access, asked_s + life_s
        self._refresh_s = self._expires_s - life_s / _REFRESH_PART
        self._refresh = answer.refresh or self._refresh
        self._id_token = answer.id or self._id_token
