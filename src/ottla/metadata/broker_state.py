"""Registered brokers as the state has them: where they listen, whether they may act, the log directories they hold."""

from __future__ import annotations

from typing import NamedTuple

from ottla.kernel.ids import BrokerEpoch, BrokerId


class Listener(NamedTuple):
    name: str
    host: str
    port: int
    security_protocol: int


class HeldDirectory(NamedTuple):
    """A broker's log directory, and the incarnation that last wrote to it."""

    directory_id: str
    incarnation: bytes
    closed: bool = False
    """True if that incarnation has closed it cleanly, and so wrote nothing later."""


class BrokerState(NamedTuple):
    """One registered broker."""

    broker_id: BrokerId
    epoch: BrokerEpoch
    incarnation: bytes
    host: str
    rack: str | None
    listeners: tuple[Listener, ...]
    metadata_version: int
    fenced: bool
    draining: bool
    options: tuple[tuple[str, str], ...] = ()
    """Options that decisions depend on, as far as they were set where the broker was started."""
    fenced_early: bool = False
    """True if the broker was fenced and its session may not have ended before."""
    directories: tuple[str, ...] = ()
    """The ids of its log directories."""
    held: tuple[HeldDirectory, ...] = ()
    """The incarnation of each directory that notes one."""

    def option(self, name: str) -> str | None:
        return next((value for known, value in self.options if known == name), None)

    @property
    def active(self) -> bool:
        """True if the broker may lead and join in-sync sets."""
        return not self.fenced and not self.draining

    def listener(self, name: str) -> Listener | None:
        return next((listener for listener in self.listeners if listener.name == name), None)
