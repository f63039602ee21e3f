"""One request as its handler gets it, and the encoding of its answer."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any

from ottla.access.names import ANONYMOUS
from ottla.broker.requests.request_times import NOT_TIMED
from ottla.groups.values import everything
from ottla.schema.codec import encoder
from ottla.wire.apis import APIS

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.requests.services import Services
    from ottla.kernel.acls import Operation, ResourceKind
    from ottla.kernel.ids import BrokerId
    from ottla.wire.connection import Part, ServerConnection

_SIZE_AND_CORRELATION = Struct(">ii")
_INT32 = Struct(">i")


class Call:
    """One request with its connection. Made per request: slotted, not frozen."""

    __slots__ = ("api_key", "api_version", "began_ns", "blocks", "connection", "correlation_id", "node")

    def __init__(
        self, node: Services, connection: ServerConnection, api_key: int, api_version: int, correlation_id: int
    ) -> None:
        self.node = node
        """The parts of this broker."""
        self.connection = connection
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.began_ns = NOT_TIMED
        self.blocks = False
        """Set by a handler while no later request of the connection may begin."""

    @property
    def principal(self) -> str:
        return self.connection.principal

    @property
    def may_ask_for_tokens(self) -> bool:
        """True if the caller is a user who has shown more than a delegation token."""
        login = self.connection.login
        named = self.principal.startswith("User:") and self.principal != ANONYMOUS
        return named and (login is None or not login.by_token)

    def about(self) -> dict[str, object]:
        """The caller, as the audit log has it."""
        connection = self.connection
        return {"principal": self.principal, "client": connection.peer_host, "listener": connection.listener}

    @property
    def peer(self) -> BrokerId | None:
        """The asking broker, if it has proved itself and its incarnation is still registered."""
        connection = self.connection
        if connection.peer is None:
            return None
        broker = self.node.metadata.brokers.get(connection.peer)
        return connection.peer if broker is not None and broker.epoch == connection.peer_epoch else None

    def may(self, operation: Operation, resource: ResourceKind, name: str, *, told: bool = True) -> bool:
        """True if the caller may do this with a resource; wire/checks.py lists what each API asks for.

        Everybody may without an authorizer, and so may brokers. `told` is False where a refusal only leaves something
        out of an answer: the log says nothing of it then.
        """
        rights = self.node.rights
        return rights is None or self.peer is not None or rights.may(self, operation, resource, name, told=told)

    @property
    def sees(self) -> Callable[[str], bool]:
        """Tells of a topic's name whether the caller may know of the topic: of something that outlives the request."""
        rights = self.node.rights
        if rights is None or self.peer is not None:
            return everything
        return rights.seen_by(self.principal, self.connection.peer_host)

    @property
    def client_id(self) -> str:
        return self.connection.client_id or ""

    @property
    def client_host(self) -> str:
        """The client's host as DescribeGroups prints it."""
        return "/" + self.connection.peer_host


def encode(call: Call, response: Any) -> list[Part]:
    """The answer as parts: the hot handlers return parts themselves, the others a message of the API."""
    if response.__class__ is list:
        parts: list[Part] = response
        return parts
    api = APIS[call.api_key]
    out = bytearray(_SIZE_AND_CORRELATION.pack(0, call.correlation_id))
    if api.response_header_version(call.api_version):
        out.append(0)
    encoder(type(response), call.api_version)(response, out)
    _INT32.pack_into(out, 0, len(out) - 4)
    return [bytes(out)]
