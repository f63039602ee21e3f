"""The delegation tokens of a guest (KIP-48): a super user makes one after the other, each for a short time.

Some are ended before their time. The next one comes before the last one has expired, or after.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from ottla.broker.requests.tokens import USER
from ottla.kernel.errors import ErrorCode
from ottla.messages.create_delegation_token import CreateDelegationTokenRequest
from ottla.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from ottla.sim.checkers.history import TokenEnded, TokenEnding, TokenGiven
from ottla.sim.doorkeeper import Doorkeeper
from ottla.sim.logins import Logins, Token
from ottla.sim.plan import TOKEN_MAKER

if TYPE_CHECKING:
    from ottla.sim.setting import Guarded

TOKEN_ENDED = "token of a guest ended"
_LIFE_MS = (700, 2500)
_NEXT_AFTER = (0.4, 1.6)
"""The part of a token's life after which something happens to it."""
_ENDED_SHARE = 0.4
_WITHOUT_MS = (100, 1000)
"""The time that a guest is left with a token that was ended."""
_LOOKS_EVERY_US = 20_000
_NOW_MS = -1
"""Ends a token at once."""


class TokenDesk:
    """Gives one guest its tokens, until `over`."""

    def __init__(self, guest: str, setting: Guarded, logins: Logins, count: Callable[[str], None]) -> None:
        self.over = False
        self._guest = guest
        self._setting = setting
        self.logins = logins
        """The credentials of the guest's clients."""
        self._count = count
        self._random = Random(f"tokens-{guest}-{setting.plan.seed}")
        self._keeper = Doorkeeper(setting, setting.peer(f"desk of {guest}", caller=TOKEN_MAKER))

    async def run(self) -> None:
        while self._goes_on:
            life_ms = self._random.randint(*_LIFE_MS)
            token = await self._give(life_ms)
            await self._wait_ms(int(life_ms * self._random.uniform(*_NEXT_AFTER)))
            if token is not None and self._goes_on and self._random.random() < _ENDED_SHARE:
                await self._end(token)
                await self._wait_ms(self._random.randint(*_WITHOUT_MS))
        self._keeper.peer.close()

    @property
    def _goes_on(self) -> bool:
        return not self._setting.ending and not self.over

    async def _give(self, life_ms: int) -> Token | None:
        """Make a token, and hand it over once every broker knows it; None if the world ends before."""
        request = CreateDelegationTokenRequest(
            owner_principal_type=USER, owner_principal_name=self._guest, renewers=[], max_lifetime_ms=life_ms
        )
        made = await self._keeper.ask(request, lambda answer: [answer.error_code])
        if made is None:
            return None
        token = Token(made.answer.token_id, bytes(made.answer.hmac))
        expires_ms = made.answer.expiry_timestamp_ms
        self._setting.saw(TokenGiven(self._setting.loop.now_us, self._guest, token.token_id, expires_ms))
        self.logins.token = token
        return token

    async def _end(self, token: Token) -> None:
        setting = self._setting
        setting.saw(TokenEnding(setting.loop.now_us, token.token_id))
        request = ExpireDelegationTokenRequest(hmac=token.secret, expiry_time_period_ms=_NOW_MS)
        if await self._keeper.ask(request, lambda answer: [_error_of_ending(answer)]) is not None:
            setting.saw(TokenEnded(setting.loop.now_us, token.token_id))
            self._count(TOKEN_ENDED)

    async def _wait_ms(self, wait_ms: int) -> None:
        until_us = self._setting.loop.now_us + wait_ms * 1000
        while self._goes_on and self._setting.loop.now_us < until_us:
            await self._keeper.peer.sleep_us(_LOOKS_EVERY_US)


def _error_of_ending(answer: ExpireDelegationTokenResponse) -> int:
    """A token that is not there has ended: by an earlier try, or because it has expired."""
    return 0 if answer.error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND else answer.error_code
