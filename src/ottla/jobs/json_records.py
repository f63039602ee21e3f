"""JSON in the records of state topics, in the bytes that Java's tools write."""

from __future__ import annotations

import json
from typing import Any


def compact_json(value: object, surrogates: str = "strict") -> bytes:
    """JSON without blanks; `surrogates` is the treatment of characters that UTF-8 has no bytes for."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", surrogates)


def json_object(content: bytes) -> dict[str, Any]:
    """The object that is read; ValueError is the end of a sentence: it is no JSON, or no JSON object."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as fault:
        raise ValueError(f"no JSON: {fault}") from fault
    if not isinstance(found, dict):
        raise ValueError("no JSON object")
    return found
