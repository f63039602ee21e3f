"""The dialled broker's side of a proof of membership: checks the connecting broker against the metadata.

handlers/sasl_authenticate.py takes the steps; the dialling side is in peers.py, the mechanism in wire/sasl.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.kernel.ids import BrokerEpoch, BrokerId
from ottla.wire.sasl import NONCE_BYTES, Hello, NotProven, answer_hello, check_dialler, decode_hello

if TYPE_CHECKING:
    from ottla.broker.environment import Environment


class PeerProof:
    """The steps of one connection. `proven` is (broker, its epoch) once all were right."""

    def __init__(self, around: Environment) -> None:
        self._around = around
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
            return answer_hello(around.metadata.secret, dialler, dialled)
        dialler, dialled = self._hellos
        check_dialler(around.metadata.secret, dialler, dialled, data)
        self.proven = BrokerId(dialler.broker_id), BrokerEpoch(dialler.broker_epoch)
        return b""

    def _is_registered(self, dialler: Hello) -> bool:
        broker = self._around.metadata.brokers.get(BrokerId(dialler.broker_id))
        return broker is not None and broker.epoch == dialler.broker_epoch

    async def _catch_up(self) -> None:
        """Read the metadata log first: the dialler may have registered a moment ago."""
        try:
            await self._around.follow.catch_up()
        except OSError as error:
            raise NotProven(f"the metadata log cannot be read: {error}") from error
