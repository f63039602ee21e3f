"""Connections that have not shown who they are: bounded in number, and closed after a time."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.server.channel import Channel

_WITHIN_S = 30.0
_MOST = 1000
"""The connections of one listener that may be on their way through TLS and SASL: each takes 40 KiB."""

log = logging.getLogger("ottla.listener")


class Unproven:
    """The connections of one listener, the oldest first, each with the time by which it must show who it is."""

    def __init__(self) -> None:
        self._until: dict[Channel, float] = {}

    def add(self, channel: Channel) -> None:
        """Note a new connection; the oldest makes room for it where there are too many."""
        if len(self._until) >= _MOST:
            oldest = next(iter(self._until))
            log.warning("%s: closed, %d others have not shown either who they are", oldest.connection.name, _MOST)
            oldest.close()
        self._until[channel] = time.monotonic() + _WITHIN_S

    def remove(self, channel: Channel) -> None:
        """Forget a connection that has shown who it is, or is gone."""
        self._until.pop(channel, None)

    def close_late(self, now: float) -> None:
        """Close those whose time is over."""
        for channel, until in list(self._until.items()):
            if until > now:
                break
            log.warning("%s: has not shown in %.0f s who it is; closed", channel.connection.name, _WITHIN_S)
            channel.close()
