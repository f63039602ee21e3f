"""Drives stories: decodes each frame, starts the handler of its API, and puts the answer in its place.

Called by wire/connection.py; handlers are in broker/handlers. A handler's own bug costs one request: it is answered
UNKNOWN_SERVER_ERROR, counted, and logged once; an answer that cannot be encoded is such a bug too. InvariantBroken
stops the broker (rule F1).
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Coroutine
from functools import partial
from importlib import import_module
from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING, Any

from ottla.broker.requests.audited import KEYS, audited
from ottla.broker.requests.call import Call, encode
from ottla.broker.requests.produce_again import produce_again
from ottla.broker.requests.refusals import refusal
from ottla.broker.requests.request_times import ONE_IN, RequestTimes
from ottla.broker.requests.thread_time import in_thread_time
from ottla.broker.waiting import next_turn
from ottla.kernel.errors import ApiError, ErrorCode, InvariantBroken
from ottla.kernel.story import Slot
from ottla.schema.codec import MalformedMessage, decoder
from ottla.wire.apis import APIS, SASL_AUTHENTICATE_KEY, SASL_HANDSHAKE_KEY, Api
from ottla.wire.connection import Exchange, Part, ServerConnection
from ottla.wire.hot import decode_fetch, decode_produce
from ottla.wire.hot_shape import ProduceShape, shape_of

if TYPE_CHECKING:
    from ottla.broker.requests.services import Services

PRODUCE, FETCH, JOIN_GROUP, SYNC_GROUP, API_VERSIONS = 0, 1, 11, 14, 18
_PROVING = frozenset({SASL_HANDSHAKE_KEY, SASL_AUTHENTICATE_KEY})
_BLOCKING = frozenset({FETCH, JOIN_GROUP, SYNC_GROUP, SASL_AUTHENTICATE_KEY})
"""APIs during which no later request of the same connection begins (rule E7)."""
_DIRECTORIES = frozenset({3, 10, 60, 75})
"""Metadata, FindCoordinator, DescribeCluster, DescribeTopicPartitions: these tell clients which broker to ask."""
_LONG_BYTES = 32 << 10
"""Requests of this size, other than Produce and Fetch, are decoded, served and answered in a turn each."""
_HEAD = Struct(">hhih")

Running = Coroutine[Slot[Any], None, Any]
Handler = Callable[[Call, Any], Running]

log = logging.getLogger("ottla.dispatch")


class _Suspended:
    """A story that had to wait: stepped whenever its slot is filled, until its answer takes its place."""

    __slots__ = ("_call", "_dispatch", "_exchange", "_request", "_story")

    def __init__(self, dispatch: Dispatch, call: Call, story: Running, request: Any, exchange: Exchange) -> None:
        self._dispatch = dispatch
        self._call = call
        self._story = story
        self._request = request
        self._exchange = exchange

    def step(self) -> None:
        try:
            slot = self._story.send(None)
        except StopIteration as end:
            try:
                parts = encode(self._call, end.value)
            except Exception as error:  # else the exception would be raised in the code that filled the slot
                parts = self._dispatch.failed(self._call, self._request, error)
        except Exception as error:
            parts = self._dispatch.failed(self._call, self._request, error)
        else:
            exchange = self._exchange
            if exchange.blocks and not self._call.blocks:
                self._call.connection.unblock(exchange)
            slot.when_full(self.step)
            return
        call = self._call
        if call.began_ns:
            self._dispatch.times.ended(call.api_key, call.began_ns)
        call.connection.answer(self._exchange, parts)


def _who(connection: ServerConnection) -> str:
    """The connection's name in the log, with its client software (KIP-511)."""
    software = f"{connection.software_name} {connection.software_version}".strip()
    return f"{connection.name} ({software})" if software else connection.name


class Dispatch:
    """Serves frames. `counts` are the requests by API; `bugs` counts exceptions of handlers."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._handlers: dict[int, Handler] = {}
        self._logged: set[str] = set()
        self.requests: dict[int, int] = dict.fromkeys(APIS, 0)
        self.times = RequestTimes(lambda: services.clock.mono_ms() * 1_000_000)
        self._untimed = 0
        """The number of coming requests for produce_again that are counted already and are not timed."""
        self.bugs = 0
        self.malformed = 0
        self.injected: dict[int, list[ErrorCode]] = {}
        """Errors that the next requests of an API get instead of an answer: the hook of ottla.testing."""

    def counts(self) -> list[tuple[str, int]]:
        """Requests so far, by API name."""
        so_far = self.requests | {PRODUCE: self.requests[PRODUCE] - self._untimed}
        return [(APIS[key].name, count) for key, count in sorted(so_far.items()) if count]

    def serve(self, connection: ServerConnection, frame: memoryview) -> None:
        """Serve one request. Any other frame closes the connection, with one line in the log."""
        try:
            self._serve(connection, frame)
        except AssertionError:
            connection.close()
            raise
        except InvariantBroken as error:
            connection.close()
            self._services.broken(error)
        except (MalformedMessage, StructError, UnicodeDecodeError, IndexError) as fault:
            self.malformed += 1
            log.warning("%s sent an invalid request: %s; closed", _who(connection), fault)
            connection.close()

    def _serve(self, connection: ServerConnection, frame: memoryview) -> None:
        key, version, correlation_id, id_size = _HEAD.unpack_from(frame)
        if key == PRODUCE:
            shape = connection.produce_shape
            if shape is not None and shape.version == version and not self.injected:
                found = shape.match(frame)
                if found is None:
                    pass
                elif untimed := self._untimed:  # python -m bench.hot_path: without an object or a division
                    if produce_again(self._services, connection, shape, found[0], found[1], correlation_id):
                        self._untimed = untimed - 1
                        return
                elif self._timed_again(connection, shape, found, correlation_id):
                    return
        api = APIS.get(key)
        if api is None:
            raise MalformedMessage(f"unknown API key {key}")
        if api.most_bytes is not None and len(frame) > api.most_bytes:
            raise MalformedMessage(f"{api.name} of {len(frame)} bytes, above the {api.most_bytes} that it may have")
        number = self.requests[key]
        self.requests[key] = number + 1
        call = Call(self._services, connection, key, version, correlation_id)
        if key > FETCH or not number % ONE_IN:
            call.began_ns = self.times.now_ns()
        first, last = api.served
        if not first <= version <= last:
            self._unsupported(call, api, version)
            return
        at = 10
        if id_size >= 0:
            at += id_size
            raw = frame[10:at]
            if raw != connection.client_id_raw:
                _take_client_id(connection, bytes(raw), id_size)
        elif connection.client_id is not None:
            connection.client_id_raw, connection.client_id = b"", None
        if api.flexible_since is not None and version >= api.flexible_since:
            at = _skip_tags(frame, at)
        request: Any
        if key == PRODUCE:
            request, _ = decode_produce(frame, at, version)
            connection.produce_shape = shape_of(frame, version, request)
        elif key == FETCH:
            request, _ = decode_fetch(frame, at, version)
        else:
            request, _ = decoder(api.request, version)(frame, at)
        if self.injected and self.injected.get(key):
            parts = self._refuse(call, request, self.injected[key].pop(0))
            self._answer(call, parts)
            return
        if api.peers_only and key not in _PROVING and call.peer is None:
            self._answer(call, self._refuse(call, request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
            return
        if key in _DIRECTORIES and self._services.follow.is_stale():
            # A client of a cut-off leader asks it, and no other broker, who leads: without an answer it asks others.
            connection.close()
            return
        self._start(call, request, is_long=key > FETCH and len(frame) > _LONG_BYTES)

    def _timed_again(
        self, connection: ServerConnection, shape: ProduceShape, found: tuple[int, memoryview], correlation_id: int
    ) -> bool:
        """Like `produce_again`, for the one request of `ONE_IN` that is timed; the others are counted here too."""
        timing = self.times.begin(PRODUCE)
        if not produce_again(self._services, connection, shape, *found, correlation_id, timing):
            return False
        self.requests[PRODUCE] += ONE_IN
        self._untimed = ONE_IN - 1
        return True

    def _start(self, call: Call, request: Any, *, is_long: bool) -> None:
        handler = self._handlers.get(call.api_key) or self._load(call.api_key)
        if self._services.rights is not None:
            from ottla.broker.requests.authorised import authorised

            handler = partial(authorised, handler)
        if self._services.audit is not None and call.api_key in KEYS:
            handler = partial(audited, handler, self._services.audit)
        story = handler(call, request) if not is_long else self._in_turns(handler, call, request)
        quotas = self._services.quotas
        if quotas.on_time:
            story = in_thread_time(quotas, call, request, story)
        try:
            slot = story.send(None)
        except StopIteration as end:
            try:
                parts = encode(call, end.value)
            except Exception as error:
                parts = self.failed(call, request, error)
        except Exception as error:
            parts = self.failed(call, request, error)
        else:
            call.blocks = call.blocks or is_long or call.api_key in _BLOCKING
            exchange = call.connection.expect(blocks=call.blocks)
            slot.when_full(_Suspended(self, call, story, request, exchange).step)
            return
        self._answer(call, parts)

    async def _in_turns(self, handler: Handler, call: Call, request: Any) -> Any:
        await next_turn(self._services.clock)
        response = await handler(call, request)
        await next_turn(self._services.clock)
        return response

    def _answer(self, call: Call, parts: list[Part]) -> None:
        if call.began_ns:
            self.times.ended(call.api_key, call.began_ns)
        connection = call.connection
        if connection.closed or connection.answer_at_once(parts):
            return
        connection.answer(connection.expect(), parts)

    def failed(self, call: Call, request: Any, error: Exception) -> list[Part]:
        """The answer to a request whose handler raised: the code of an ApiError, or UNKNOWN_SERVER_ERROR for a bug."""
        code = ErrorCode.UNKNOWN_SERVER_ERROR
        if isinstance(error, ApiError):
            code = error.code
        else:
            self.bugs += 1
            if isinstance(error, InvariantBroken):
                self._services.broken(error)
            where = "".join(traceback.format_exception(error))
            if where not in self._logged and len(self._logged) < 1000:
                self._logged.add(where)
                log.error("%s version %d failed:\n%s", APIS[call.api_key].name, call.api_version, where)
        return self._refuse(call, request, code)

    def _refuse(self, call: Call, request: Any, code: ErrorCode) -> list[Part]:
        try:
            response = refusal(call, request, code)
            if response is not None:
                return encode(call, response)
        except Exception as fault:
            name = APIS[call.api_key].name
            log.error("%s version %d cannot be answered %s: %r; closed", name, call.api_version, code.name, fault)
        call.connection.close()
        return []

    def _unsupported(self, call: Call, api: Api, version: int) -> None:
        """Answer an unsupported version: ApiVersions in its version 0 (KIP-511); other APIs end the connection."""
        if call.api_key != API_VERSIONS:
            raise MalformedMessage(f"{api.name} version {version} is not served")
        from ottla.messages.api_versions import ApiVersion, ApiVersionsResponse

        call.api_version = 0
        own = ApiVersion(api_key=API_VERSIONS, min_version=api.announced[0], max_version=api.announced[1])
        response = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[own])
        self._answer(call, encode(call, response))

    def _load(self, key: int) -> Handler:
        """Import a handler at the first request of its API, to keep the start short."""
        handler: Handler = import_module(f"ottla.broker.handlers.{APIS[key].module.rpartition('.')[2]}").handle
        self._handlers[key] = handler
        return handler


def _take_client_id(connection: ServerConnection, raw: bytes, size: int) -> None:
    if len(raw) != size:
        raise MalformedMessage("client id runs past the end of the frame")
    connection.client_id_raw = raw
    connection.client_id = str(raw, "utf-8")


def _skip_tags(frame: memoryview, at: int) -> int:
    if frame[at] == 0:
        return at + 1
    from ottla.wire.hot import skip_tags

    return skip_tags(frame, at)
