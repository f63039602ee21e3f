"""One connection to a broker without its socket: requests to bytes, bytes to answers, versions that both speak.

The faces feed it: `blocking.Connection` and `aio.AsyncConnection`.
"""

from __future__ import annotations

import sys
from collections import deque
from struct import Struct
from typing import Any, NamedTuple

import ottla
from ottla.client.errors import ProtocolViolation, UnsupportedVersion
from ottla.client.model import MAX_RESPONSE_BYTES
from ottla.messages.api_versions import ApiVersionsRequest
from ottla.schema.codec import MalformedMessage, decoder, encoder
from ottla.schema.message import schema_of
from ottla.wire.apis import APIS

_LENGTH = Struct(">i")
_HEADER = Struct(">ihhih")
_FIRST_READ = 1 << 20
_KEPT_BYTES = 16 << 20
_KEPT_FRAMES = 2
"""The memory of one frame is read by the caller while the next frame comes in."""
_API_VERSIONS = 18
_UNSUPPORTED_VERSION = 35
_TAGS_AT_MOST = 1000
KEYS = {api.name: key for key, api in APIS.items()}
_REQUEST = "Request"


class RequestApi(NamedTuple):
    """An API as its request class declares it."""

    key: int
    name: str
    versions: tuple[int, int]
    flexible_since: int | None


_apis: dict[type[Any], RequestApi] = {}


def api_of(request: type[Any]) -> RequestApi:
    """The API of a request class; TypeError for a class that is none."""
    known = _apis.get(request)
    if known is None:
        name = request.__name__.removesuffix(_REQUEST)
        schema = schema_of(request)
        if name not in KEYS or schema.versions is None:
            raise TypeError(f"{request.__name__} is not a request that this client sends")
        known = _apis[request] = RequestApi(KEYS[name], name, schema.versions, schema.flexible_since)
    return known


def response_of(request: type[Any]) -> type[Any]:
    """The class of the answer: it stands beside the request's."""
    found: type[Any] = getattr(sys.modules[request.__module__], request.__name__.removesuffix(_REQUEST) + "Response")
    return found


def api_versions_request() -> ApiVersionsRequest:
    """The first request on every connection."""
    return ApiVersionsRequest(client_software_name="ottla", client_software_version=ottla.__version__)


class Inbox:
    """Assembles frames as bytes arrive. Memory grows with the received bytes, never by the length field alone.

    The memory of a large frame is used again once no view of it is left: fresh memory of 8 MiB is cleared twice, by the
    kernel and by Python, which took a sixth of the time of loading a lake (tasks' processor time, 2,000,000 records).
    """

    __slots__ = ("_body", "_filled", "_head", "_kept", "_size")

    def __init__(self) -> None:
        self._head = bytearray(4)
        self._body: bytearray | None = None
        self._filled = 0
        self._size = 0
        self._kept: list[bytearray] = []

    def target(self) -> memoryview:
        """The buffer for the next bytes; never empty."""
        body = self._body
        if body is None:
            return memoryview(self._head)[self._filled :]
        if self._filled == len(body):
            larger = bytearray(min(self._size, 4 * len(body)))
            larger[: len(body)] = body
            self._body = body = larger
        return memoryview(body)[self._filled : self._size]

    def received(self, count: int) -> memoryview | None:
        """`count` bytes were put into `target`; a whole frame (now the caller's own) once there is one."""
        self._filled += count
        if self._body is None:
            if self._filled < 4:
                return None
            (size,) = _LENGTH.unpack(self._head)
            if not 4 <= size <= MAX_RESPONSE_BYTES:
                raise ProtocolViolation(
                    f"an answer claims {size} bytes; is this the port of a Kafka listener without TLS?"
                )
            self._size = size
            self._body = self._unused(size) or bytearray(min(size, _FIRST_READ))
            self._filled = 0
            return None
        if self._filled < self._size:
            return None
        frame, self._body, self._filled = self._body, None, 0
        if _FIRST_READ < len(frame) <= _KEPT_BYTES and not any(frame is each for each in self._kept):
            self._kept = [*self._kept[1 - _KEPT_FRAMES :], frame]
        return memoryview(frame)[: self._size]

    def _unused(self, size: int) -> bytearray | None:
        """The memory of an earlier frame that is large enough and of which no view is left."""
        if size > _FIRST_READ:
            for frame in self._kept:
                if len(frame) >= size and not _viewed(frame):
                    return frame
        return None


def _viewed(buffer: bytearray) -> bool:
    """True if a view of the memory is alive: then it refuses to change its size."""
    try:
        buffer.append(buffer.pop())
    except BufferError:
        return True
    return False


class ExpectedAnswer:
    """An answer that is due: answers come in the order of the requests."""

    __slots__ = ("correlation_id", "flexible", "key", "response", "version")

    def __init__(self, correlation_id: int, key: int, version: int, response: type[Any], flexible: bool) -> None:
        self.correlation_id = correlation_id
        self.key = key
        self.version = version
        self.response = response
        self.flexible = flexible


class Link:
    """Correlation, headers and version negotiation of one connection."""

    def __init__(self, client_id: str) -> None:
        self.inbox = Inbox()
        self.versions: dict[int, tuple[int, int]] = {}
        self.features: dict[str, int] = {}
        self._client_id = client_id.encode()
        self._next_correlation_id = 0
        self._expected: deque[ExpectedAnswer] = deque()

    @property
    def waiting(self) -> int:
        """The number of answers that are due."""
        return len(self._expected)

    def choose(self, api: RequestApi, least: int = 0, most: int = 32767) -> int:
        """The newest version that both sides speak; raises UnsupportedVersion."""
        theirs = self.versions.get(api.key)
        first, last = api.versions
        if theirs is None:
            raise UnsupportedVersion(f"this broker does not serve {api.name}")
        newest = min(last, theirs[1], most)
        if newest < max(first, theirs[0], least):
            raise UnsupportedVersion(
                f"this broker serves {api.name} in versions {theirs[0]}-{theirs[1]}, "
                f"and {max(first, least)}-{min(last, most)} would be needed"
            )
        return newest

    def request(
        self, api: RequestApi, message: object, version: int, response: type[Any], *, answered: bool = True
    ) -> tuple[int, bytearray]:
        """The correlation id and the frame to send; `answered=False` for Produce with acks=0."""
        correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        flexible = api.flexible_since is not None and version >= api.flexible_since
        out = bytearray(_HEADER.pack(0, api.key, version, correlation_id, len(self._client_id)))
        out += self._client_id
        if flexible:
            out.append(0)
        try:
            encoder(type(message), version)(message, out)
        except MalformedMessage as fault:
            raise ValueError(f"{api.name} request does not fit version {version}: {fault}") from fault
        _LENGTH.pack_into(out, 0, len(out) - 4)
        if answered:
            self._expected.append(
                ExpectedAnswer(correlation_id, api.key, version, response, flexible and api.key != _API_VERSIONS)
            )
        return correlation_id, out

    def answer(self, frame: memoryview) -> tuple[int, Any]:
        """The correlation id and the message of the next answer; raises ProtocolViolation."""
        if not self._expected:
            raise ProtocolViolation("an answer came to no request")
        expected = self._expected.popleft()
        (correlation_id,) = _LENGTH.unpack_from(frame)
        if correlation_id != expected.correlation_id:
            raise ProtocolViolation(f"an answer to request {correlation_id}, due was {expected.correlation_id}")
        version = expected.version
        if expected.key == _API_VERSIONS and frame[4:6] == _UNSUPPORTED_VERSION.to_bytes(2, "big"):
            version = 0  # KIP-511: this error comes in the oldest version, whichever was asked for
        try:
            position = _after_tags(frame, 4) if expected.flexible else 4
            message, end = decoder(expected.response, version)(frame, position)
        except (MalformedMessage, IndexError) as fault:
            raise ProtocolViolation(f"cannot read {expected.response.__name__} version {version}: {fault}") from fault
        if end != len(frame):
            raise ProtocolViolation(f"{len(frame) - end} bytes too many after {expected.response.__name__}")
        return correlation_id, message

    def learn(self, response: Any) -> None:
        """Take the ApiVersionsResponse of this connection."""
        self.versions = {entry.api_key: (entry.min_version, entry.max_version) for entry in response.api_keys}
        self.features = {entry.name: entry.max_version_level for entry in response.finalized_features}


def _after_tags(frame: memoryview, position: int) -> int:
    """The position after the tagged fields of a response header, none of which we know."""
    count, position = _varint(frame, position)
    if count > _TAGS_AT_MOST:
        raise ProtocolViolation(f"{count} tagged fields in a response header")
    for _ in range(count):
        _, position = _varint(frame, position)
        size, position = _varint(frame, position)
        position += size
    return position


def _varint(frame: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = frame[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 28:
            raise ProtocolViolation("a length in a response header does not end")
