"""A change that is asked for: shown first with the command that does the same, carried out once it is confirmed."""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ottla.console.view import PageQuery, View, wrong

if TYPE_CHECKING:
    from ottla.console.desk import Desk


@dataclass(frozen=True, slots=True)
class AskedChange:
    """One change before it is made."""

    title: str
    command: str
    carry_out: Callable[[], Awaitable[str]]
    """Does it, and returns a sentence about what was done."""
    back: str
    """The page to go to."""
    lines: Sequence[str] = ()
    """Sentences about what would be."""
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[object]] = ()
    settled: Mapping[str, str] = field(default_factory=dict)
    """Parameters that the look has settled: what is confirmed is what was shown."""
    is_loss: bool = False
    """True if what is lost cannot be had back."""


Changing = Callable[["Desk", PageQuery], Awaitable[AskedChange]]


def command(desk: Desk, *words: str) -> str:
    """A command line of `ottla` on this cluster, quoted for a shell."""
    return shlex.join(["ottla", *words, "-b", desk.setting.bootstrap])


async def answer(desk: Desk, name: str, changing: Changing, form: PageQuery) -> View:
    """The question, or what was done once `confirm` is yes."""
    change = await changing(desk, form)
    if form.flag("confirm"):
        sentence = await change.carry_out()
        desk.changed()
        return View("done.html", change.title, {"sentence": sentence, "command": change.command, "back": change.back})
    fields = {key: text for key, text in form.given.items() if key not in ("token", "confirm")} | dict(change.settled)
    values = {
        "name": name,
        "command": change.command,
        "lines": list(change.lines),
        "columns": list(change.columns),
        "rows": [list(row) for row in change.rows],
        "fields": fields,
        "back": change.back,
        "is_loss": change.is_loss,
    }
    return View("confirm.html", change.title, values)


def raise_faults(outcome: Mapping[Any, object]) -> None:
    """Raise the first error among the outcomes of a call."""
    for fault in outcome.values():
        if isinstance(fault, Exception):
            raise fault


def assignments(text: str) -> dict[str, str]:
    """KEY=VALUE, a line each."""
    found: dict[str, str] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        key, equals, value = line.partition("=")
        if not equals or not key.strip():
            raise wrong(f"{line!r} is not KEY=VALUE")
        if key.strip() in found:
            raise wrong(f"{key.strip()} is given twice")
        found[key.strip()] = value.strip()
    return found
