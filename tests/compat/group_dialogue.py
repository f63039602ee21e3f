"""Sends group requests to any broker, and writes down its answers without the parts that may differ."""

from __future__ import annotations

import re
import socket
import struct
import time
from typing import Any

from ottla.messages.find_coordinator import FindCoordinatorRequest
from ottla.messages.headers import RequestHeader, ResponseHeader
from ottla.messages.heartbeat import HeartbeatRequest
from ottla.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.messages.leave_group import LeaveGroupRequest
from ottla.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.schema.codec import decoder, encode
from ottla.wire.apis import APIS

KEYS = {api.request.__name__: key for key, api in APIS.items()}
MEMBER_ID = re.compile(r"\b(?:app|one|two|app2)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_IGNORED = {"host", "port", "node_id", "throttle_time_ms"}


class Wire:
    """One connection: `tell` sends, `hear` takes the next answer."""

    def __init__(self, port: int, client_id: str = "app") -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._client_id = client_id
        self._sent: list[tuple[int, int]] = []
        self._correlation_id = 0

    def close(self) -> None:
        self._socket.close()

    def tell(self, version: int, request: Any) -> None:
        key = KEYS[type(request).__name__]
        api = APIS[key]
        self._correlation_id += 1
        header = RequestHeader(
            request_api_key=key,
            request_api_version=version,
            correlation_id=self._correlation_id,
            client_id=self._client_id,
        )
        frame = encode(header, api.request_header_version(version)) + encode(request, version)
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)
        self._sent.append((key, version))

    def hear(self) -> Any:
        key, version = self._sent.pop(0)
        (size,) = struct.unpack(">i", self._exactly(4))
        frame = memoryview(self._exactly(size))
        api = APIS[key]
        _, at = decoder(ResponseHeader, api.response_header_version(version))(frame, 0)
        answer, end = decoder(api.response, version)(frame, at)
        assert end == size, f"{api.name} version {version}: {size - end} bytes too many"
        return answer

    def ask(self, version: int, request: Any) -> Any:
        self.tell(version, request)
        return self.hear()

    def _exactly(self, count: int) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            more = self._socket.recv(count - len(parts))
            if not more:
                raise ConnectionError("the broker closed the connection")
            parts += more
        return bytes(parts)


class Dialogue:
    """Requests to one broker for a group of its own; two brokers should agree in `said`."""

    def __init__(self, port: int, group: str) -> None:
        self.port = port
        self.group = group
        self.said: list[str] = []
        self._wires: list[Wire] = []
        self._ids: dict[str, str] = {}
        self.names: dict[str, str] = {}
        """Other texts that differ between brokers, with what to write in their place."""
        self._find_coordinator()

    def _find_coordinator(self) -> None:
        wire = self.wire()
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline:
            found = wire.ask(3, FindCoordinatorRequest(key=self.group))
            if not found.error_code:
                described = wire.ask(4, HeartbeatRequest(group_id=self.group, member_id="x"))
                if described.error_code not in (14, 15, 16):
                    return
            time.sleep(0.02)
        raise AssertionError("no coordinator")

    def wire(self, client_id: str = "app") -> Wire:
        wire = Wire(self.port, client_id)
        self._wires.append(wire)
        return wire

    def close(self) -> None:
        for wire in self._wires:
            wire.close()

    def note(self, what: str, answer: Any) -> Any:
        """Write an answer down, with member ids numbered by first appearance, and without addresses."""
        self.said.append(f"{what}: {self._plain(answer)}")
        return answer

    def neutral(self, text: str) -> str:
        def named(found: re.Match[str]) -> str:
            return self._ids.setdefault(found.group(), f"<member {len(self._ids) + 1}>")

        for differs, name in self.names.items():
            text = text.replace(differs, name)
        return MEMBER_ID.sub(named, text).replace(self.group, "<group>")

    def _plain(self, value: Any) -> str:
        """A value as text, with lists in an order that does not depend on ids: brokers keep members in maps."""
        if isinstance(value, list):
            return "[" + ", ".join(sorted(self._plain(each) for each in value)) + "]"
        fields = getattr(type(value), "__slots__", None)
        if fields is None:
            return self.neutral(repr(int(value)) if isinstance(value, int) else repr(value))
        parts = [f"{name}={self._plain(getattr(value, name))}" for name in fields if name not in _IGNORED]
        return f"{type(value).__name__}({', '.join(parts)})"

    def ask(self, what: str, wire: Wire, version: int, request: Any) -> Any:
        return self.note(what, wire.ask(version, request))

    # Requests of this group

    def join(self, member_id: str = "", **options: Any) -> JoinGroupRequest:
        names = options.pop("protocols", ("range",))
        metadata = options.pop("metadata", b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff")
        values: dict[str, Any] = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000, **options}
        return JoinGroupRequest(
            group_id=self.group,
            member_id=member_id,
            protocol_type=values.pop("protocol_type", "consumer"),
            protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name in names],
            **values,
        )

    def sync(
        self, member_id: str, generation: int, given: dict[str, bytes] | None = None, **options: Any
    ) -> SyncGroupRequest:
        return SyncGroupRequest(
            group_id=self.group,
            member_id=member_id,
            generation_id=generation,
            protocol_type=options.pop("protocol_type", "consumer"),
            protocol_name=options.pop("protocol_name", "range"),
            assignments=[
                SyncGroupRequestAssignment(member_id=member, assignment=part) for member, part in (given or {}).items()
            ],
            **options,
        )

    def heartbeat(self, member_id: str, generation: int, **options: Any) -> HeartbeatRequest:
        return HeartbeatRequest(group_id=self.group, member_id=member_id, generation_id=generation, **options)

    def leave(self, *members: Any, **options: Any) -> LeaveGroupRequest:
        return LeaveGroupRequest(group_id=self.group, members=list(members), **options)

    def joined(self, wire: Wire, version: int = 9, **options: Any) -> Any:
        """Join in two steps, and write both answers down."""
        first = self.ask("id wanted", wire, version, self.join(**options))
        return self.ask("joined", wire, version, self.join(first.member_id, **options))
