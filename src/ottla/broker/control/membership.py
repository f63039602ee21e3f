"""The dialled broker's side of a proof of membership: checks the connecting broker against the metadata.

handlers/sasl_authenticate.py takes the steps; the dialling side is in peers.py, the mechanism in wire/sasl.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.kernel.ids import BrokerEpoch, BrokerId
from ottla.wire.sasl import NONCE_BYTES, Hello, NotProven, answer_hello, check_dialler, decode_hello

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.broker.environment import Environment
    from ottla.metadata.state import Metadata


_BOUND = "ottla.peer.bound"
"""Noted in the registration of a broker whose proofs cover certificates: those of older releases do not."""
_WITH_TLS = (1, 3)
"""The security protocols SSL and SASL_SSL."""


def bound_by(protocols: Iterable[int]) -> tuple[tuple[str, str], ...]:
    """The note for the registration of a broker with these listeners; none without TLS, where nothing is covered."""
    return ((_BOUND, "1"),) if any(protocol in _WITH_TLS for protocol in protocols) else ()


def covered(metadata: Metadata, one: BrokerId, other: BrokerId, certificate_hash: bytes) -> bytes:
    """The part of a certificate that the proofs between two brokers cover: none if one of them is older than that.

    The metadata says so, and nobody on the way between the two.
    """
    both = [metadata.brokers.get(broker) for broker in (one, other)]
    return certificate_hash if all(each is not None and each.option(_BOUND) for each in both) else b""


class PeerProof:
    """The steps of one connection. `proven` is (broker, its epoch) once all were right."""

    def __init__(self, around: Environment) -> None:
        self._around = around
        self.certificate_hash = b""
        """The hash of the certificate of the listener on which the connection came."""
        self._hellos: tuple[Hello, Hello] | None = None
        self.proven: tuple[BrokerId, BrokerEpoch] | None = None

    async def step(self, data: bytes) -> bytes:
        """The answer to one step; raise NotProven if the other side is not a broker of this cluster."""
        around = self._around
        if self._hellos is None:
            dialler = decode_hello(data)
            if not self._is_registered(dialler):
                await self._catch_up()
            if not self._is_registered(dialler):
                raise NotProven(f"broker {dialler.broker_id} of epoch {dialler.broker_epoch} is not registered")
            dialled = Hello(around.broker, around.follow.broker_epoch, around.entropy.bytes(NONCE_BYTES))
            self._hellos = dialler, dialled
            return answer_hello(around.metadata.secret, dialler, dialled, self._bound(dialler))
        dialler, dialled = self._hellos
        check_dialler(around.metadata.secret, dialler, dialled, data, self._bound(dialler))
        self.proven = BrokerId(dialler.broker_id), BrokerEpoch(dialler.broker_epoch)
        return b""

    def _bound(self, dialler: Hello) -> bytes:
        around = self._around
        return covered(around.metadata, around.broker, BrokerId(dialler.broker_id), self.certificate_hash)

    def _is_registered(self, dialler: Hello) -> bool:
        broker = self._around.metadata.brokers.get(BrokerId(dialler.broker_id))
        return broker is not None and broker.epoch == dialler.broker_epoch

    async def _catch_up(self) -> None:
        """Read the metadata log first: the dialler may have registered a moment ago."""
        try:
            await self._around.follow.catch_up()
        except OSError as error:
            raise NotProven(f"the metadata log cannot be read: {error}") from error
