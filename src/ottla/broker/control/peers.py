"""Connections to the other brokers: one per peer and purpose, proved on both sides, requests one after the other.

Called by replicas/fetcher.py and every other part that sends requests to brokers; the sockets are the `Network` seam's.
A connection ends when the peer restarts or moves, so an answer always comes from the incarnation that was asked.
"""

from __future__ import annotations

from collections import deque
from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ottla.broker.control.membership import covered
from ottla.broker.waiting import Deadline
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import BrokerEpoch, BrokerId
from ottla.kernel.seams import Network, Transport
from ottla.kernel.story import Slot, run_story
from ottla.messages.headers import RequestHeader
from ottla.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.metadata.broker_state import BrokerState, Listener
from ottla.schema.codec import MalformedMessage, decoder, encoder
from ottla.wire.apis import APIS, Api
from ottla.wire.sasl import MECHANISM, NONCE_BYTES, Hello, NotProven, check_answer, prove_dialler

if TYPE_CHECKING:
    from ottla.broker.environment import Environment

DIAL_TIMEOUT_MS = 5000
MAX_ANSWER_BYTES = 128 << 20
_FIRST_BACK_OFF_MS = 20
_LONGEST_BACK_OFF_MS = 1000
_INT32 = Struct(">i")
DEFAULT_LISTENER = "PLAINTEXT"
_KEYS = {f"{api.name}Request": api for api in APIS.values()}


class PeerTarget(NamedTuple):
    """An incarnation of a peer, and its address."""

    epoch: BrokerEpoch
    host: str
    port: int


class Contacts(Protocol):
    """Is told of connections to other brokers that have proved themselves: doubts.py."""

    def dialled(self, broker_id: BrokerId, epoch: BrokerEpoch) -> None:
        """A connection of ours to a broker was made."""

    def cut_off(self, broker_id: BrokerId, epoch: BrokerEpoch) -> None:
        """A connection that had proved to be this broker has ended."""


class _Asked:
    """A request that was sent, or that waits for a connection."""

    __slots__ = ("api", "deadline", "request", "slot", "version")

    def __init__(self, api: Api, request: Any, version: int) -> None:
        self.api = api
        self.request = request
        self.version = version
        self.slot: Slot[Any] = Slot()
        self.deadline: Deadline | None = None

    def end(self, error: OSError) -> None:
        if self.deadline is not None:
            self.deadline.cancel()
        self.slot.fail(error)


class Peers:
    """All connections of one broker to others."""

    def __init__(self, around: Environment, network: Network | None, contacts: Contacts) -> None:
        self.around = around
        self.network = network
        self.contacts = contacts
        self._ways: dict[tuple[BrokerId, str], _Way] = {}
        self._closed = False

    def call(self, broker: BrokerId, purpose: str, request: Any, version: int, timeout_ms: int) -> Slot[Any]:
        """Ask a peer. The slot holds its decoded answer, or an OSError: unknown, not reached, lost, or too late."""
        asked = _Asked(_KEYS[type(request).__name__], request, version)
        if self._closed or self.network is None:
            asked.slot.fail(ConnectionAbortedError("this broker speaks to no other now"))
            return asked.slot
        way = self._ways.get((broker, purpose))
        if way is None:
            way = self._ways[broker, purpose] = _Way(self, broker, purpose)
        asked.deadline = self.around.deadlines.after(timeout_ms, lambda: way.too_late(asked))
        way.ask(asked)
        return asked.slot

    def target(self, broker: BrokerId) -> PeerTarget | None:
        """The inter-broker address in a peer's last registration; None if it is unknown."""
        state = self.around.metadata.brokers.get(broker)
        listener = None if state is None else self._listener(state)
        if state is None or listener is None:
            return None
        return PeerTarget(state.epoch, listener.host, listener.port)

    def _listener(self, broker: BrokerState) -> Listener | None:
        named = broker.listener(self.around.config.inter_broker_listener_name or DEFAULT_LISTENER)
        if named is not None or not broker.listeners:
            return named
        return broker.listeners[0]

    def reconcile(self) -> None:
        """Brokers have changed: end connections to those that are gone, were restarted or have moved."""
        for way in list(self._ways.values()):
            way.aim(self.target(way.broker))

    def forget(self, way: _Way) -> None:
        """The peer is unregistered."""
        self._ways.pop((way.broker, way.purpose), None)

    def close(self) -> None:
        self._closed = True
        for way in list(self._ways.values()):
            way.end(ConnectionAbortedError("this broker is stopping"))
        self._ways.clear()


class _Way:
    """The way to one peer for one purpose: at most one connection at a time, made at the first request."""

    def __init__(self, peers: Peers, broker: BrokerId, purpose: str) -> None:
        self.peers = peers
        self.broker = broker
        self.purpose = purpose
        self._waiting: deque[_Asked] = deque()
        self._link: _Link | None = None
        self._back_off_ms = 0
        self._again: Deadline | None = None

    def ask(self, asked: _Asked) -> None:
        link = self._link
        if link is not None and link.open:
            link.send(asked)
            return
        self._waiting.append(asked)
        if link is None and self._again is None:
            self._dial()

    def aim(self, target: PeerTarget | None) -> None:
        """Use the peer's present address: end a connection to another one, and try an awaited one at once."""
        if self._link is not None and self._link.target != target:
            self._link.fail(ConnectionResetError(f"broker {self.broker} is gone, or has come up anew"))
        elif self._again is not None and self._waiting and target is not None:
            self._back_off_ms = 0
            self._cancel_again()
            self._dial()
        if target is None:
            self.end(ConnectionRefusedError(f"broker {self.broker} is not registered"))
            self.peers.forget(self)

    def too_late(self, asked: _Asked) -> None:
        """No answer came in time. Answers come in order, so later requests are as late."""
        error = TimeoutError(f"no answer of broker {self.broker} to {asked.api.name}")
        if asked in self._waiting:
            self._waiting.remove(asked)
            asked.end(error)
        elif self._link is not None:
            self._link.fail(error)

    def opened(self) -> None:
        self._back_off_ms = 0
        link = self._link
        while self._waiting and link is not None and link is self._link:
            link.send(self._waiting.popleft())

    def lost(self, link: _Link, error: OSError) -> None:
        """Fail requests that wait for a first connection; the next try waits for the back-off."""
        if self._link is not link:
            return
        self._link = None
        if link.open:
            self.peers.contacts.cut_off(self.broker, link.target.epoch)
        else:
            self._back_off_ms = min(max(_FIRST_BACK_OFF_MS, 2 * self._back_off_ms), _LONGEST_BACK_OFF_MS)
            self._again = self.peers.around.deadlines.after(self._back_off_ms, self._dial_again)
        self._fail_waiting(error)

    def end(self, error: OSError) -> None:
        self._cancel_again()
        if self._link is not None:
            self._link.fail(error)
            self._cancel_again()
        self._fail_waiting(error)

    def _fail_waiting(self, error: OSError) -> None:
        waiting, self._waiting = self._waiting, deque()
        for asked in waiting:  # the callers may ask again at once
            asked.end(error)

    def _cancel_again(self) -> None:
        if self._again is not None:
            self._again.cancel()
            self._again = None

    def _dial_again(self) -> None:
        self._again = None
        if self._waiting:
            self._dial()

    def _dial(self) -> None:
        target = self.peers.target(self.broker)
        if target is None:
            self._fail_waiting(ConnectionRefusedError(f"broker {self.broker} is not registered"))
            return
        network = self.peers.network
        assert network is not None
        self._link = _Link(self, target)
        network.dial(target.host, target.port, self._link, timeout_ms=DIAL_TIMEOUT_MS, max_frame_bytes=MAX_ANSWER_BYTES)


class _Link:
    """`kernel.seams.Dialled`: one connection, from dialling to its end."""

    def __init__(self, way: _Way, target: PeerTarget) -> None:
        self.way = way
        self.target = target
        self.open = False
        """True once both sides have proved themselves."""
        self._transport: Transport | None = None
        self._certificate_hash = b""
        self._over = False
        self._correlation_id = 0
        self._asked: dict[int, _Asked] = {}

    # events of the network

    def connected(self, transport: Transport, certificate_hash: bytes = b"") -> None:
        self._certificate_hash = certificate_hash
        if self._over:
            transport.close()
            return
        self._transport = transport
        self._proving = self.way.peers.around.deadlines.after(DIAL_TIMEOUT_MS, self._not_proved)
        run_story(self._prove())

    def received(self, frame: memoryview) -> None:
        if self._over:
            return
        try:
            (correlation_id,) = _INT32.unpack_from(frame)
            asked = self._asked.pop(correlation_id)
            at = 5 if asked.api.response_header_version(asked.version) else 4
            answer: Any = decoder(asked.api.response, asked.version)(frame, at)[0]
        except (MalformedMessage, StructError, KeyError, ValueError, IndexError) as fault:
            self.fail(ConnectionAbortedError(f"broker {self.way.broker} sent an answer that cannot be read: {fault}"))
            return
        if asked.deadline is not None:
            asked.deadline.cancel()
        asked.slot.fill(answer)

    def lost(self, error: OSError) -> None:
        self.fail(error)

    # calls of the way

    def send(self, asked: _Asked) -> None:
        assert self._transport is not None
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        self._asked[self._correlation_id] = asked
        self._transport.send([self._frame(asked)])

    def fail(self, error: OSError) -> None:
        """Close the connection, and fail all waiting requests."""
        if self._over:
            return
        self._over = True
        if self._transport is not None:
            self._proving.cancel()
            self._transport.close()
        asked, self._asked = self._asked, {}
        self.way.lost(self, error)
        for each in asked.values():
            each.end(error)

    def _frame(self, asked: _Asked) -> bytes:
        api, version = asked.api, asked.version
        out = bytearray(4)
        client_id = f"broker-{self.way.peers.around.broker}-{self.way.purpose}"
        header = RequestHeader(
            request_api_key=api.key,
            request_api_version=version,
            correlation_id=self._correlation_id,
            client_id=client_id,
        )
        encoder(RequestHeader, api.request_header_version(version))(header, out)
        encoder(type(asked.request), version)(asked.request, out)
        _INT32.pack_into(out, 0, len(out) - 4)
        return bytes(out)

    # proof of membership

    def _not_proved(self) -> None:
        self.fail(TimeoutError(f"broker {self.way.broker} did not prove itself in time"))

    async def _prove(self) -> None:
        try:
            await self._exchange_proofs()
        except NotProven as fault:
            self.fail(ConnectionRefusedError(f"broker {self.way.broker} at {self.target.host}: {fault}"))
            return
        except OSError as error:
            self.fail(error)
            return
        if not self._over:
            self._proving.cancel()
            self.open = True
            self.way.peers.contacts.dialled(self.way.broker, self.target.epoch)
            self.way.opened()

    async def _exchange_proofs(self) -> None:
        around = self.way.peers.around
        secret = around.metadata.secret
        shaken: SaslHandshakeResponse = await self._ask(SaslHandshakeRequest(mechanism=MECHANISM), 1)
        if shaken.error_code != ErrorCode.NONE:
            raise NotProven("it does not know how brokers prove themselves")
        mine = Hello(around.broker, around.follow.broker_epoch, around.entropy.bytes(NONCE_BYTES))
        bound = covered(around.metadata, around.broker, self.way.broker, self._certificate_hash)
        theirs = check_answer(secret, mine, await self._step(mine.encode()), bound)
        if (theirs.broker_id, theirs.broker_epoch) != (self.way.broker, self.target.epoch):
            raise NotProven(f"broker {theirs.broker_id} of epoch {theirs.broker_epoch} answers there")
        await self._step(prove_dialler(secret, mine, theirs, bound))

    async def _step(self, data: bytes) -> bytes:
        response: SaslAuthenticateResponse = await self._ask(SaslAuthenticateRequest(auth_bytes=data), 2)
        if response.error_code != ErrorCode.NONE:
            raise NotProven(response.error_message or "it refused the proof")
        return bytes(response.auth_bytes)

    def _ask(self, request: Any, version: int) -> Slot[Any]:
        asked = _Asked(_KEYS[type(request).__name__], request, version)
        self.send(asked)
        return asked.slot
