"""Subjects of the registry, and the versions of one side by side with what a change may break, in words."""

from __future__ import annotations

import asyncio
import difflib
import json
import shlex
from typing import Any
from urllib.parse import quote

from ottla.console import lists
from ottla.console.beside import unless_refused
from ottla.console.change import AskedChange
from ottla.console.desk import Desk
from ottla.console.lists import listing
from ottla.console.urls import url
from ottla.console.view import PageQuery, View, wrong

PARAMETERS = lists.PARAMETERS
COLUMNS = ("subject",)
LEVELS = {
    "NONE": "Any schema may follow.",
    "BACKWARD": "Readers with the new schema can read data of the version before: upgrade consumers first.",
    "BACKWARD_TRANSITIVE": "Readers with the new schema can read data of all versions: upgrade consumers first.",
    "FORWARD": "Readers with the version before can read data of the new schema: upgrade producers first.",
    "FORWARD_TRANSITIVE": "Readers with any version can read data of the new schema: upgrade producers first.",
    "FULL": "Data of the new schema and of the version before can be read by both: upgrade in any order.",
    "FULL_TRANSITIVE": "Data of all versions can be read by all: upgrade in any order.",
}


async def schemas(desk: Desk, query: PageQuery) -> View:
    """A page of the subjects. Where the registry refuses the user, its sentence stands there."""
    values: dict[str, Any] = {"registry_url": "", "level": "", "faults": []}
    if desk.setting.registry is None:
        return View("schemas.html", "Schemas", {**values, "list": listing([], PageQuery({}), COLUMNS)})
    values["registry_url"] = desk.setting.registry.urls[0]
    names = await unless_refused(_ask(desk, "/subjects"), [], values["faults"])
    settings = await unless_refused(_ask(desk, "/config"), {}, values["faults"])
    values["level"] = settings.get("compatibilityLevel", "")
    values["list"] = listing([{"subject": name} for name in names], query, COLUMNS)
    return View("schemas.html", "Schemas", values)


async def schema(desk: Desk, query: PageQuery) -> View:
    """Two versions of a subject side by side: by default the latest two."""
    subject = query.need("subject")
    path = f"/subjects/{quote(subject, safe='')}/versions"
    versions: list[int] = await _ask(desk, path)
    right = query.count("right", versions[-1], least=versions[0], most=versions[-1])
    left = query.count("left", versions[-2] if len(versions) > 1 else right, least=versions[0], most=versions[-1])
    faults: list[str] = []
    one, other, level = await asyncio.gather(
        _ask(desk, f"{path}/{left}"),
        _ask(desk, f"{path}/{right}"),
        unless_refused(_level(desk, subject), "", faults),
    )
    verdict: list[str] = []
    if left != right:
        verdict = await unless_refused(_verdict(desk, path, left, other), [], faults)
    values = {
        "subject": subject,
        "versions": versions,
        "left": left,
        "right": right,
        "kind": other.get("schemaType", "AVRO"),
        "id": other["id"],
        "level": level,
        "means": LEVELS.get(level, ""),
        "levels": list(LEVELS),
        "rows": side_by_side(_pretty(one["schema"]), _pretty(other["schema"])),
        "verdict": verdict,
        "faults": faults,
    }
    return View("schema.html", subject, values)


async def compatibility(desk: Desk, form: PageQuery) -> AskedChange:
    """Another compatibility level of a subject."""
    subject, level = form.need("subject"), form.choice("level", tuple(LEVELS), "BACKWARD")
    before = await _level(desk, subject)
    path = f"/config/{quote(subject, safe='')}"
    registry = desk.registry()

    async def carry_out() -> str:
        await asyncio.to_thread(registry.ask, "PUT", path, {"compatibility": level})
        return f"The compatibility of {subject} is {level} now."

    body = json.dumps({"compatibility": level})
    caller = f"-u {shlex.quote(desk.user)} " if desk.user and desk.tokens is None else ""
    line = f"curl {caller}-X PUT -H 'Content-Type: application/json' -d '{body}' '{registry.urls[0]}{path}'"
    lines = [f"{before} → {level}", LEVELS[level]]
    return AskedChange(f"Compatibility of {subject}", line, carry_out, url("schema", subject=subject), lines)


async def register(desk: Desk, form: PageQuery) -> AskedChange:
    """A new version of a subject, checked against the versions before."""
    subject, text = form.need("subject"), form.need("schema")
    kind = form.choice("kind", ("AVRO", "JSON", "PROTOBUF"), "AVRO")
    registry = desk.registry()
    body = {"schema": text, "schemaType": kind}
    path = f"/subjects/{quote(subject, safe='')}/versions"
    if subject in await _ask(desk, "/subjects"):
        told = await asyncio.to_thread(registry.ask, "POST", f"/compatibility{path}/latest?verbose=true", body)
        if not told.get("is_compatible"):
            raise wrong(
                f"it does not fit the versions before: {'; '.join(told.get('messages', ())) or 'no reason told'}"
            )

    async def carry_out() -> str:
        answer = await asyncio.to_thread(registry.ask, "POST", path, body)
        return f"The schema is registered in {subject} with the id {answer['id']}."

    command = f"ottla schema register {shlex.quote(subject)} FILE --type {kind} --registry {registry.urls[0]}"
    lines = ["The registry says that it is compatible."]
    return AskedChange(f"Register in {subject}", command, carry_out, url("schema", subject=subject), lines)


async def _ask(desk: Desk, path: str) -> Any:
    return await asyncio.to_thread(desk.registry().ask, "GET", path)


async def _level(desk: Desk, subject: str) -> str:
    found = await _ask(desk, f"/config/{quote(subject, safe='')}?defaultToGlobal=true")
    return str(found["compatibilityLevel"])


async def _verdict(desk: Desk, path: str, left: int, other: dict[str, Any]) -> list[str]:
    """The registry's word on whether the right schema fits the left one."""
    body = {"schema": other["schema"], "schemaType": other.get("schemaType", "AVRO")}
    if "references" in other:
        body["references"] = other["references"]
    told = await asyncio.to_thread(desk.registry().ask, "POST", f"/compatibility{path}/{left}?verbose=true", body)
    if told.get("is_compatible"):
        return [f"It is compatible with version {left}."]
    return [f"It is not compatible with version {left}.", *map(str, told.get("messages", ()))]


def side_by_side(left: str, right: str) -> list[tuple[str, str, str]]:
    """Rows of two texts: what they are (same, changed, gone, new), the left line, the right line."""
    one, other = left.splitlines(), right.splitlines()
    rows: list[tuple[str, str, str]] = []
    kinds = {"equal": "same", "replace": "changed", "delete": "gone", "insert": "new"}
    for tag, a, b, c, d in difflib.SequenceMatcher(None, one, other, autojunk=False).get_opcodes():
        length = max(b - a, d - c)
        left_lines, right_lines = [*one[a:b], *[""] * length][:length], [*other[c:d], *[""] * length][:length]
        rows += [(kinds[tag], before, after) for before, after in zip(left_lines, right_lines, strict=True)]
    return rows


def _pretty(text: str) -> str:
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except ValueError:  # Protobuf
        return text
