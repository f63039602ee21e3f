"""Commands about delegation tokens; `commands.py` says what a command is."""

from __future__ import annotations

from typing import NamedTuple

from ottla.cluster.footprints import EVERYTHING, Footprint
from ottla.kernel.credentials import DelegationToken


class CreateToken(NamedTuple):
    """Add a new delegation token, and forget those that have expired."""

    token: DelegationToken

    @property
    def footprint(self) -> Footprint:
        return EVERYTHING


class ChangeToken(NamedTuple):
    """Renew a delegation token or let it expire, as `by` asks for: at `until_ms`, or at once (None)."""

    token_id: str
    by: str
    now_ms: int
    until_ms: int | None
    renews: bool

    @property
    def footprint(self) -> Footprint:
        return EVERYTHING
