"""The gate of listeners with SASL: serves a connection until it has a principal, then dispatch does.

`access/login.py` says what may begin; this encodes its answers. Before a principal is there nothing else of a request
is read than its key, and no handler runs but that of ApiVersions (security.md: the gate stands before the dispatch).
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable, Mapping
from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING, Any, Protocol

from ottla.access.login import API_VERSIONS, AUTHENTICATE, HANDSHAKE, OTHER, Login, LoginStage, Mechanism, Stepped
from ottla.access.mechanisms.base import SlowHash
from ottla.access.mechanisms.plain import PlainServer
from ottla.access.mechanisms.scram import HASHES, NUMBERS, ScramServer
from ottla.broker.requests.call import Call, encode
from ottla.broker.requests.refusals import refusal
from ottla.kernel.errors import ErrorCode
from ottla.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.schema.codec import MalformedMessage, decoder
from ottla.wire.apis import API_VERSIONS_KEY, APIS, SASL_AUTHENTICATE_KEY, SASL_HANDSHAKE_KEY
from ottla.wire.sasl import MECHANISM as PEER_MECHANISM

if TYPE_CHECKING:
    from ottla.access.mechanisms.base import ServerSide
    from ottla.broker.requests.dispatch import Dispatch
    from ottla.broker.requests.services import Services
    from ottla.wire.connection import Exchange, Part, ServerConnection

_HEAD = Struct(">hhih")
_SIZE = Struct(">i")
_NONCE_BYTES = 24
_KINDS = {API_VERSIONS_KEY: API_VERSIONS, SASL_HANDSHAKE_KEY: HANDSHAKE, SASL_AUTHENTICATE_KEY: AUTHENTICATE}

_NO_SIDES: Mapping[str, Callable[[], ServerSide]] = {}

log = logging.getLogger("ottla.gate")


class Offer(Protocol):
    """The offer of a listener: `config.security.ListenerSecurity`."""

    @property
    def mechanisms(self) -> tuple[str, ...]: ...
    @property
    def users(self) -> Mapping[str, str]: ...
    @property
    def reauth_ms(self) -> Mapping[str, int]: ...
    @property
    def failed_delay_ms(self) -> int: ...


class GatedLogin(Login):
    """A connection's login, and what the gate needs beside it."""

    def __init__(self, mechanisms: Mapping[str, Mechanism], failed_delay_ms: int) -> None:
        super().__init__(mechanisms)
        self.failed_delay_ms = failed_delay_ms
        self.as_peer = False
        """True once the connection has begun to prove that it is a broker of the cluster."""


class Gate:
    """`login` begins a connection's, `serve` takes each of its frames."""

    def __init__(self, services: Services, dispatch: Dispatch) -> None:
        self._services = services
        self._dispatch = dispatch
        self._secret = b""
        self.off_loop: Callable[[Callable[[], None], Callable[[BaseException | None], None]], None] = _at_once
        """Runs the first off the loop, then the second on it; set by the shell, which has threads."""
        self.logged_in = 0
        self.refused = 0

    def login(self, offer: Offer, sides: Mapping[str, Callable[[], ServerSide]] = _NO_SIDES) -> GatedLogin:
        """The beginning of a connection of such a listener; `sides` of mechanisms that ask others than this cluster."""
        mechanisms = {
            name: Mechanism(sides.get(name) or self._side(name, offer), offer.reauth_ms.get(name, 0))
            for name in offer.mechanisms
        }
        return GatedLogin(mechanisms, offer.failed_delay_ms)

    def _side(self, name: str, offer: Offer) -> Callable[[], ServerSide]:
        if name not in HASHES:
            return lambda: PlainServer(offer.users)
        services, number = self._services, next(each for each, known in NUMBERS.items() if known == name)
        return lambda: ScramServer(
            name,
            lambda user: services.metadata.scram.get((user, number)),
            self._nonce,
            self._salts(),
            services.tokens.login,
        )

    def _salts(self) -> bytes:
        """The secret from which the salts of users that are not there follow."""
        self._secret = self._secret or self._services.entropy.bytes(32)
        return self._secret

    def _nonce(self) -> str:
        return base64.b64encode(self._services.entropy.bytes(_NONCE_BYTES)).decode().rstrip("=")

    def serve(self, connection: ServerConnection, frame: memoryview) -> None:
        """Serve one frame. What may not come closes the connection, with one line in the log."""
        login: GatedLogin = connection.login
        if login.stage is LoginStage.PROVEN and login.expires_mono_ms is not None:
            login.expire(self._services.clock.mono_ms())
        try:
            self._serve(connection, login, frame)
        except (MalformedMessage, StructError, UnicodeDecodeError, IndexError) as fault:
            log.warning("%s sent an invalid request: %s; closed", connection.name, fault)
            connection.close()

    def _serve(self, connection: ServerConnection, login: GatedLogin, frame: memoryview) -> None:
        if login.raw and login.stage in (LoginStage.PROVING, LoginStage.REPROVING):
            self._raw_token(connection, login, bytes(frame))
            return
        key, version, correlation_id, _ = _HEAD.unpack_from(frame)
        if login.as_peer:
            self._of_peer(connection, login, key, frame)
            return
        kind = _KINDS.get(key, OTHER)
        if kind in (HANDSHAKE, AUTHENTICATE) and version not in APIS[key].served:
            raise MalformedMessage(f"{APIS[key].name} version {version} is not served")
        if login.stage is LoginStage.PROVEN and kind in (OTHER, API_VERSIONS):
            self._dispatch.serve(connection, frame)
            return
        if login.stage is LoginStage.PROVEN and kind is AUTHENTICATE:
            call = Call(self._services, connection, key, version, correlation_id)
            self._answer(call, SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE))
            return
        if not login.may_begin(kind):
            self._out_of_order(connection, login, key, version, correlation_id)
            return
        if kind is API_VERSIONS:
            if version > APIS[key].served.last:
                login.unsupported_versions()
            self._dispatch.serve(connection, frame)
            return
        call = Call(self._services, connection, key, version, correlation_id)
        api = APIS[key]
        request: Any
        request, _ = decoder(api.request, version)(frame, _body_at(frame, flexible=api.is_flexible(version)))
        if kind is HANDSHAKE:
            self._handshake(call, login, request, frame)
        else:
            self._token(call, login, request)

    def _out_of_order(
        self, connection: ServerConnection, login: GatedLogin, key: int, version: int, correlation_id: int
    ) -> None:
        """During the tokens Kafka answers a wrong request with an error of its own shape; else it closes."""
        log.warning("%s: API %d may not come now (%s); closed", connection.name, key, login.stage.value)
        answered = key == SASL_HANDSHAKE_KEY
        if login.stage not in (LoginStage.PROVING, LoginStage.REPROVING) or not answered:
            connection.close()
            return
        login.end()
        connection.close_after_answer()
        call = Call(self._services, connection, key, version, correlation_id)
        self._answer(call, refusal(call, SaslHandshakeRequest(mechanism=""), ErrorCode.ILLEGAL_SASL_STATE))

    def _of_peer(self, connection: ServerConnection, login: GatedLogin, key: int, frame: memoryview) -> None:
        if connection.peer is None and key not in (SASL_AUTHENTICATE_KEY, SASL_HANDSHAKE_KEY):
            log.warning("%s: API %d before the broker has proved itself; closed", connection.name, key)
            connection.close()
            return
        if connection.peer is not None and login.principal is None:
            login.principal = connection.principal = f"Broker:{connection.peer}"
            connection.proven()
        self._dispatch.serve(connection, frame)

    def _handshake(self, call: Call, login: GatedLogin, request: SaslHandshakeRequest, frame: memoryview) -> None:
        connection = call.connection
        if request.mechanism == PEER_MECHANISM and login.stage is LoginStage.UNPROVEN:
            login.as_peer = True
            self._dispatch.serve(connection, frame)
            return
        answer = login.handshake(request.mechanism, call.api_version, self._services.clock.mono_ms())
        if login.stage is LoginStage.ENDED:
            log.warning("%s asks for SASL's %.40r; closed", connection.name, request.mechanism)
            connection.close_after_answer()
        self._answer(call, SaslHandshakeResponse(error_code=answer.code, mechanisms=list(answer.mechanisms)))

    def _token(self, call: Call, login: GatedLogin, request: SaslAuthenticateRequest) -> None:
        def parts_of(stepped: Stepped) -> list[Part]:
            return encode(
                call,
                SaslAuthenticateResponse(
                    error_code=stepped.code,
                    error_message=stepped.message,
                    auth_bytes=stepped.answer,
                    session_lifetime_ms=stepped.lifetime_ms,
                ),
            )

        self._step(call.connection, login, bytes(request.auth_bytes), parts_of)

    def _raw_token(self, connection: ServerConnection, login: GatedLogin, data: bytes) -> None:
        """A token without a header, as after SaslHandshake version 0; a refusal has no answer."""

        def parts_of(stepped: Stepped) -> list[Part]:
            return [] if stepped.code != ErrorCode.NONE else [_SIZE.pack(len(stepped.answer)) + stepped.answer]

        self._step(connection, login, data, parts_of)

    def _step(
        self,
        connection: ServerConnection,
        login: GatedLogin,
        data: bytes,
        parts_of: Callable[[Stepped], list[Part]],
        exchange: Exchange | None = None,
    ) -> None:
        """Take one token and answer it, in its place `exchange` if it had to wait for a slow hash."""
        stepped = self._stepped(connection, login, data)
        if isinstance(stepped, SlowHash):
            place = exchange or connection.expect(blocks=True)

            def again(fault: BaseException | None) -> None:
                if fault is not None:
                    log.error("%s: closed by a fault of the broker's own", connection.name, exc_info=fault)
                    connection.close()
                elif not connection.closed:
                    self._step(connection, login, data, parts_of, place)

            self.off_loop(stepped.work, again)
        elif stepped.code != ErrorCode.NONE:
            self._refuse(connection, login, parts_of(stepped), exchange)
        elif exchange is not None:
            connection.answer(exchange, parts_of(stepped))
        else:
            self._send(connection, parts_of(stepped))

    def _stepped(self, connection: ServerConnection, login: GatedLogin, data: bytes) -> Stepped | SlowHash:
        clock = self._services.clock
        stepped = login.token(data, clock.mono_ms(), clock.wall_ms())
        if isinstance(stepped, SlowHash):
            return stepped
        if stepped.code != ErrorCode.NONE:
            self.refused += 1
            log.warning("%s: login refused: %s", connection.name, stepped.log or stepped.message)
            self._tell(connection, "login refused", None, stepped.log or stepped.message)
        elif login.stage is LoginStage.PROVEN:
            assert login.principal is not None
            self.logged_in += 1
            connection.principal = login.principal
            connection.proven()
            self._tell(connection, "login", login.principal, None)
        return stepped

    def _tell(self, connection: ServerConnection, event: str, principal: str | None, why: str | None) -> None:
        """Tell the audit log of a login."""
        if self._services.audit is not None:
            outcome = {"principal": principal} if why is None else {"why": why}
            self._services.audit(
                {"event": event, "client": connection.peer_host, "listener": connection.listener, **outcome}
            )

    def _refuse(
        self, connection: ServerConnection, login: GatedLogin, parts: list[Part], exchange: Exchange | None
    ) -> None:
        """Answer after a while, so that nobody tries many passwords soon; then close."""
        place = exchange or connection.expect(blocks=True)

        def late() -> None:
            if connection.closed:
                return
            if not parts:
                connection.close()
                return
            connection.close_after_answer()
            connection.answer(place, parts)

        self._services.deadlines.after(login.failed_delay_ms, late)

    def _answer(self, call: Call, response: object) -> None:
        self._send(call.connection, encode(call, response))

    def _send(self, connection: ServerConnection, parts: list[Part]) -> None:
        if not connection.answer_at_once(parts):
            connection.answer(connection.expect(), parts)


def _at_once(work: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
    work()
    done(None)


def _body_at(frame: memoryview, *, flexible: bool) -> int:
    """The position of a request's body, behind its header."""
    size: int = _HEAD.unpack_from(frame)[3]
    at = 10 + max(size, 0)
    if at > len(frame):
        raise MalformedMessage("client id runs past the end of the frame")
    if flexible:
        from ottla.wire.hot import skip_tags

        at = at + 1 if frame[at] == 0 else skip_tags(frame, at)
    return at
