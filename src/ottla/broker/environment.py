"""The needs that most parts of the broker share, as one small value that node.py hands to every part it builds.

A part that needs more gets that by arguments of its own. No part gets the node.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.broker_time import BrokerTime
    from ottla.broker.failures import Failures
    from ottla.broker.metadata_log.metadata_follow import MetadataFollow
    from ottla.broker.options import BrokerOptions
    from ottla.broker.waiting import Deadlines
    from ottla.config.broker import BrokerConfig
    from ottla.kernel.ids import BrokerId
    from ottla.kernel.seams import Clock, Entropy, Syncer
    from ottla.metadata.state import Metadata


class ShownCertificate(Protocol):
    @property
    def certificate_hash(self) -> bytes: ...


class Certificates:
    """The certificates that listeners show; the shell says which."""

    def __init__(self) -> None:
        self.of: Callable[[str], ShownCertificate | None] = lambda listener: None

    def hash_of(self, listener: str) -> bytes:
        """The SHA-256 of the certificate of a listener; empty without TLS."""
        shown = self.of(listener)
        return b"" if shown is None else shown.certificate_hash


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The environment of one broker. The objects stay the same while it runs; their content changes."""

    broker: BrokerId
    clock: Clock
    entropy: Entropy
    deadlines: Deadlines
    syncer: Syncer
    follow: MetadataFollow
    """The metadata log: the known state of the cluster, and the only way to change it."""
    time: BrokerTime
    """The time by which things have an age: not the wall clock alone (rule B9)."""
    options: BrokerOptions
    failures: Failures
    certificates: Certificates

    @property
    def metadata(self) -> Metadata:
        """The state of the cluster as far as it is known here."""
        return self.follow.metadata

    @property
    def config(self) -> BrokerConfig:
        """The broker's options as they are now."""
        return self.options.config

    def may_lead(self) -> bool:
        """True while this broker may answer as a leader or coordinator (rule A12)."""
        return self.follow.lease_valid()

    def disk_failed(self, error: OSError) -> None:
        """Report that the log directory that the error names has failed (rule B3)."""
        self.failures.disk_failed(error)

    def broken(self, error: Exception) -> None:
        """Report that the broker found its own state wrong (rule F)."""
        self.failures.broken(error)
