"""Records as `ottla consume --format json` prints them, one object of JSON on each line."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from ottla.cli.faults import BadInput
from ottla.cli.input.lines import each_made, line_blocks
from ottla.cli.input.sources import InputSource
from ottla.client.model import Header
from ottla.client.produce.run import Run

MEMBERS = (
    "topic",
    "partition",
    "offset",
    "timestamp",
    "key",
    "key_base64",
    "value",
    "value_base64",
    "headers",
    "headers_base64",
)


def record_runs(source: InputSource, common: Run) -> Iterator[list[Run]]:
    """A run for each line; headers of all records come behind its own. Topic and offset say where it was read."""

    def run(line: bytes) -> Run:
        return _from_json(line, common)

    for lines in line_blocks(source):
        yield from each_made((line for line in lines if line.strip()), run)


def _from_json(line: bytes, common: Run) -> Run:
    try:
        content = json.loads(line)
        if not isinstance(content, dict):
            raise ValueError("it is not an object")
        _check_members(content)
        partition = _whole_number(content, "partition")
        return Run(
            [_bytes(content.get("value"), content.get("value_base64"))],
            _bytes(content.get("key"), content.get("key_base64")),
            [*_headers(content), *common.headers],
            _whole_number(content, "timestamp"),
            partition if common.partition is None else common.partition,
        )
    except (ValueError, RecursionError) as fault:
        raise BadInput(f"not a record in JSON ({fault}): {line.decode('utf-8', 'replace')[:200]}") from None


def _check_members(content: dict[str, Any]) -> None:
    """ValueError for members that records do not have, and for a record that does not say what its value is."""
    unknown = [name for name in content if name not in MEMBERS]
    faults = []
    if "value" not in content and "value_base64" not in content:
        faults.append("it has no member value or value_base64")
    for name in unknown[:1]:
        near = get_close_matches(name, MEMBERS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"the members are {', '.join(MEMBERS)}"
        faults.append(f"its member {name} is unknown: {'kcat has it for value' if name == 'payload' else hint}")
    if faults:
        remedy = "" if len(faults) == 1 and not unknown else "; --input jsonl writes whole objects as values"
        raise ValueError(" and ".join(faults) + remedy)
    for name in ("key", "value", "headers"):
        if content.get(name) is not None and content.get(f"{name}_base64") is not None:
            raise ValueError(f"it has both {name} and {name}_base64")


def _whole_number(content: dict[str, Any], name: str) -> int | None:
    found = content.get(name)
    if found is not None and (not isinstance(found, int) or isinstance(found, bool)):
        raise ValueError(f"its {name} is not a whole number")
    return found


def _headers(content: dict[str, Any]) -> list[Header]:
    """The members `headers` and `headers_base64`, lists of pairs."""
    found: list[Header] = []
    for member in ("headers", "headers_base64"):
        given = content.get(member)
        if given is None:
            continue
        if not isinstance(given, list) or not all(isinstance(one, list) and len(one) == 2 for one in given):
            raise ValueError(f"its {member} are not a list of [NAME, VALUE]")
        for name, value in given:
            if not isinstance(name, str):
                raise ValueError(f"a name in its {member} is not text")
            in_base64 = member == "headers_base64" and value is not None
            found.append((name, _bytes(None, value) if in_base64 else _bytes(value)))
    return found


def _bytes(text: Any, encoded: Any = None) -> bytes | None:
    if encoded is not None:
        if not isinstance(encoded, str):
            raise ValueError("Base64 is text")
        return base64.b64decode(encoded, validate=True)
    if text is None or isinstance(text, str):
        return None if text is None else text.encode()
    return json.dumps(text, separators=(",", ":")).encode()
