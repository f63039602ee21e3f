"""Requests of every API that name one topic, group, transactional id and user, and the errors in their answers."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from tests.access.secured import Raw

from ottla.kernel.acls import Operation, Permission, ResourceKind
from ottla.messages.create_acls import AclCreation
from ottla.records.builder import build_batch
from ottla.records.reader import Record
from ottla.schema.codec import decode, encode
from ottla.schema.message import Field, schema_of
from ottla.schema.types import Array
from ottla.wire.apis import APIS

TOPIC, GROUP, TRANSACTION = "books", "readers", "writer"
NAMES = {
    ResourceKind.TOPIC: TOPIC,
    ResourceKind.GROUP: GROUP,
    ResourceKind.CLUSTER: "kafka-cluster",
    ResourceKind.TRANSACTIONAL_ID: TRANSACTION,
}
REFUSED = frozenset({29, 30, 31, 53})
_OTHER_NAMES = {"member_id": "", "group_instance_id": None, "client_software_name": "c", "mechanism": "PLAIN"}


def request_of(key: int, version: int, topic_id: bytes, kind: int | None = None) -> Any:
    """One request; `kind` is the type of a resource with options, or of a coordinator's key."""
    api = APIS[key]
    request = _filled(api.request, version, topic_id, key)
    if key == 10:
        request.key_type = kind or 0
        request.key = (GROUP, TRANSACTION, "s")[request.key_type]
        request.coordinator_keys = [request.key]
    for resource in getattr(request, "resources", ()):
        resource.resource_type = kind or 2
        resource.resource_name = {2: TOPIC, 32: GROUP}.get(resource.resource_type, "1")
    if key == 3:
        request.allow_auto_topic_creation = True
    if key == 0:
        request.acks, request.timeout_ms = 1, 1000
    if key == 1:
        request.replica_id, request.session_epoch, request.session_id, request.max_wait_ms = -1, -1, 0, 0
        request.forgotten_topics_data = []
    return request


def _filled(cls: type, version: int, topic_id: bytes, key: int) -> Any:
    values = {each.name: _value(each, version, topic_id, key) for each in schema_of(cls).fields if each.is_in(version)}
    return cls(**{name: value for name, value in values.items() if value is not _UNSAID})


_UNSAID = object()


def _value(field: Field, version: int, topic_id: bytes, key: int) -> Any:
    if field.struct is not None:
        one = _filled(field.struct, version, topic_id, key)
        return [one] if isinstance(field.kind, Array) else _UNSAID
    kind = field.kind.element if isinstance(field.kind, Array) else field.kind
    text = type(kind).__name__
    found: Any = _UNSAID
    if field.name in ("topic_id",):
        return topic_id
    if text == "Text":
        found = _name_for(field.name, key)
    elif isinstance(field.kind, Array):
        found = 0
    if found is _UNSAID:
        return found
    return [found] if isinstance(field.kind, Array) else found


def _name_for(field: str, key: int) -> Any:
    if field in _OTHER_NAMES:
        return _OTHER_NAMES[field]
    if "transactional_id" in field:
        return "" if field.endswith("pattern") else TRANSACTION
    if "group" in field:
        return GROUP
    if field == "key":
        return TRANSACTION
    if field == "coordinator_keys":
        return TRANSACTION
    return TOPIC


def batch(*, transactional: bool = False) -> bytes:
    producer_id = 7 if transactional else -1
    return build_batch([Record(0, 0, b"k", b"v")], producer_id=producer_id, is_transactional=transactional)


def answer(raw: Raw, key: int, version: int, request: Any) -> Any:
    """The decoded answer; None if the connection was closed."""
    api = APIS[key]
    body = (b"\0" if api.is_flexible(version) else b"") + encode(request, version)
    said = raw.ask(key, version, body)
    if said is None:
        return None
    return decode(api.response, version, said[1:] if api.response_header_version(version) else said)


def errors_in(message: Any, version: int) -> Iterator[int]:
    for field in schema_of(type(message)).fields:
        value = getattr(message, field.name)
        if field.name.endswith("error_code") and field.is_in(version):
            yield value
        if field.struct is not None and value is not None:
            for item in value if isinstance(value, list) else [value]:
                yield from errors_in(item, version)


def acl(
    user: str, operation: int, resource: int, name: str, *, deny: bool = False, prefixed: bool = False, host: str = "*"
) -> AclCreation:
    return AclCreation(
        resource_type=resource,
        resource_name=name,
        resource_pattern_type=4 if prefixed else 3,
        principal=f"User:{user}",
        host=host,
        operation=operation,
        permission_type=Permission.DENY if deny else Permission.ALLOW,
    )


def everything(user: str) -> list[AclCreation]:
    return [acl(user, Operation.ALL, kind, NAMES[kind]) for kind in NAMES]


def login(raw: Raw, user: str) -> None:
    assert raw.handshake("PLAIN") is not None
    token = f"\0{user}\0{user}".encode()
    said = raw.ask(36, 0, struct.pack(">i", len(token)) + token)
    assert said is not None
    assert said[:2] == b"\0\0", said
