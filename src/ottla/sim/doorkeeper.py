"""A super user of the simulated cluster, who asks for a change until it is made and every broker knows of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ottla.sim.peer import Peers
    from ottla.sim.setting import Guarded

_AGAIN_US = 30_000


class Made(NamedTuple):
    """A change that every broker knows of."""

    answer: Any
    surely_once: bool
    """False if an earlier try was not answered so, and may still be carried out."""


class Doorkeeper:
    """Asks over one client's connections."""

    def __init__(self, setting: Guarded, peer: Peers) -> None:
        self._setting = setting
        self.peer = peer

    async def ask(self, request: Any, errors: Callable[[Any], list[int]]) -> Made | None:
        """Ask until the answer is without an error, and wait until every broker has applied the change.

        None if the world ends before.
        """
        setting, peer, surely_once = self._setting, self.peer, True
        while not setting.ending:
            answer = await peer.ask(request)
            if answer is not None and not any(errors(answer)):
                version = setting.head()
                while not setting.all_know(version):
                    if setting.ending:
                        return None
                    await peer.sleep_us(_AGAIN_US)
                return Made(answer, surely_once)
            surely_once = False
            await peer.sleep_us(_AGAIN_US)
        return None
