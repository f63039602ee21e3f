"""The identity of a schema's content: MD5 over text, references, metadata and rule set, also its GUID."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.registry.records import Reference

_RULE_TEXTS = ("name", "doc", "kind", "mode", "type")


def fingerprint(schema: str, references: Sequence[Reference], metadata: Any, rule_set: Any) -> bytes:
    """The 16 bytes by which Confluent's registry and clients know a schema."""
    parts: list[str | bytes] = [schema]
    for reference in references:
        parts += [reference.name, reference.subject, reference.version.to_bytes(4, "big", signed=True)]
    if metadata is not None:
        parts += [b"\x01", *_metadata(metadata)]
    if rule_set is not None:
        parts += [b"\x01", *_rule_set(rule_set)]
    joined = b"".join(part.encode("utf-8", "replace") if isinstance(part, str) else part for part in parts)
    return hashlib.md5(joined, usedforsecurity=False).digest()


def guid(content: bytes) -> str:
    """The fingerprint as clients write it."""
    return str(uuid.UUID(bytes=content))


def guid_bytes(text: str) -> bytes | None:
    """The fingerprint of a GUID; None if the text is no GUID."""
    try:
        return uuid.UUID(text).bytes
    except ValueError:
        return None


def _metadata(metadata: dict[str, Any]) -> Iterable[str]:
    for tag, paths in sorted((metadata.get("tags") or {}).items()):
        yield from (tag, *paths)
    for name, value in sorted((metadata.get("properties") or {}).items()):
        yield from (name, value)
    yield from metadata.get("sensitive") or ()


def _rule_set(rule_set: dict[str, Any]) -> Iterable[str | bytes]:
    for kind in ("migrationRules", "domainRules", "encodingRules"):
        for rule in rule_set.get(kind) or ():
            yield from _rule(rule)
    if rule_set.get("enableAt"):
        yield rule_set["enableAt"]


def _rule(rule: dict[str, Any]) -> Iterable[str | bytes]:
    yield from (rule[name] for name in _RULE_TEXTS if rule.get(name) is not None)
    yield from sorted(rule.get("tags") or ())
    for name, value in sorted((rule.get("params") or {}).items()):
        yield from (name, value)
    yield from (rule[name] for name in ("expr", "onSuccess", "onFailure") if rule.get(name) is not None)
    if rule.get("disabled"):
        yield b"\x01"
