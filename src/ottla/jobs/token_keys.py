"""The keys of an identity provider, fetched and kept: `judge` looks at a token, in a thread.

Keys are fetched at the start, at the first login after they have become old, and for a token by a key that is not among
them. A provider that does not answer delays a token whose key is at hand by a second at the most.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeVar
from urllib.parse import urlsplit

from ottla.access.bearer_tokens import KeyEntry, UnknownKey, WrongKeys, judge, parse_keys
from ottla.access.mechanisms.oauthbearer import Bearer, NotTaken
from ottla.config.oauth import OauthSettings
from ottla.web.fetch import FetchFailed, fetched

UNKNOWN_EVERY_S = 10.0
"""Keys are not asked for oftener for tokens whose key is unknown: anybody can make such tokens."""
_TIMEOUT_S = 10.0
_PATIENCE_S = 1.0
"""The time that a login waits for newer keys while there are some at hand."""
_MOST_WAITING = 2
"""The logins that may wait for keys which another one fetches: each holds a thread, which others need."""

Judged = TypeVar("Judged")

log = logging.getLogger("ottla.gate")


class TokenKeys:
    """Threads share it. ValueError if it cannot work: `joserfc` is missing, or a file of keys is no good."""

    def __init__(
        self,
        settings: OauthSettings,
        fetch: Callable[[str, float], bytes] = fetched,
        mono_s: Callable[[], float] = time.monotonic,
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        try:
            import joserfc  # noqa: F401  # the first token must not find it missing
        except ModuleNotFoundError:
            raise ValueError("OAUTHBEARER needs joserfc: pip install 'ottla[security]'") from None
        self._settings = settings
        self._fetch = fetch
        self._mono_s = mono_s
        self._wall_s = wall_s
        self._keys: Sequence[KeyEntry] = ()
        self._changed = threading.Condition()
        self._fetching = False
        self._waiting = 0
        self._asked_s: float | None = None
        """When keys were last asked for."""
        self._fetched_s: float | None = None
        """When those at hand came."""
        self._failures = 0
        self._fault = ""

    def begin(self) -> None:
        """The first keys: a file's now, or ValueError; a server's by a thread, so that the broker starts without it."""
        if urlsplit(self._settings.jwks_url).scheme == "file":
            self._ask()
            if self._fault:
                raise ValueError(f"sasl.oauthbearer.jwks.endpoint.url: {self._fault}")
            return
        self._ask_aside()

    def judge(self, token: str) -> Bearer | NotTaken:
        """Name the owner of a token, or why it is not taken. Waits where the token's key must be fetched."""
        rules = self._settings.rules
        return self.judged(lambda keys, now_s: judge(token, keys, rules, now_s))

    def judged(self, look: Callable[[Sequence[KeyEntry], float], Judged]) -> Judged | NotTaken:
        """The result of a look at a token, given the keys and the wall time. Waits where keys must be fetched.

        Where it raises UnknownKey, newer keys are given.
        """
        if self._are_old():
            self._ask_aside().join(_PATIENCE_S)
        try:
            return look(self._keys, self._wall_s())
        except UnknownKey:
            self._ask_for_unknown()
        try:
            return look(self._keys, self._wall_s())
        except UnknownKey as fault:
            why = f"; the keys could not be fetched: {self._fault}" if self._fault else ""
            return NotTaken(f"{fault}{why}")

    def _ask_aside(self) -> threading.Thread:
        asking = threading.Thread(target=self._ask, name="ottla-token-keys", daemon=True)
        asking.start()
        return asking

    def _are_old(self) -> bool:
        """True if keys are due, and the provider was not asked in vain a moment ago."""
        with self._changed:
            now_s = self._mono_s()
            if self._fetching or self._fetched_s is None:
                return False
            if now_s - self._fetched_s < self._settings.refresh_ms / 1000:
                return False
            return self._may_ask(now_s)

    def _may_ask(self, now_s: float) -> bool:
        if self._asked_s is None or not self._failures:
            return True
        doubled_ms = self._settings.backoff_ms << min(self._failures - 1, 30)
        return now_s - self._asked_s >= min(self._settings.backoff_max_ms, doubled_ms) / 1000

    def _ask_for_unknown(self) -> None:
        with self._changed:
            now_s = self._mono_s()
            if self._fetching:
                if self._waiting < _MOST_WAITING:
                    self._waiting += 1
                    self._changed.wait_for(lambda: not self._fetching, _TIMEOUT_S)
                    self._waiting -= 1
                return
            lately = self._asked_s is not None and now_s - self._asked_s < UNKNOWN_EVERY_S
            if not self._may_ask(now_s) or (lately and self._fetched_s is not None):
                return
        self._ask()

    def _ask(self) -> None:
        """Fetch the keys, unless another thread does so; those at hand stay where none can be had."""
        with self._changed:
            if self._fetching:
                return
            self._fetching = True
            self._asked_s = self._mono_s()
        keys: Sequence[KeyEntry] = ()
        fault = ""
        try:
            keys = parse_keys(self._fetch(self._settings.jwks_url, _TIMEOUT_S))
        except FetchFailed as failed:
            fault = str(failed)
        except WrongKeys as wrong:
            fault = f"{self._settings.jwks_url}: {wrong}"
        finally:
            with self._changed:
                self._fetching = False
                self._note(keys, fault)
                self._changed.notify_all()

    def _note(self, keys: Sequence[KeyEntry], fault: str) -> None:
        if not keys:
            if not self._failures:
                at_hand = "those at hand stay" if self._keys else "nobody can log in by a token until there are any"
                log.warning("keys for tokens: %s; %s", fault, at_hand)
            self._failures += 1
        else:
            if self._failures:
                log.info("keys for tokens: fetched again from %s", self._settings.jwks_url)
            self._keys, self._fetched_s, self._failures = keys, self._mono_s(), 0
        self._fault = fault
