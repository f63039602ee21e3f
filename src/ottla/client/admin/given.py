"""Arguments of administration, refused by name where they cannot be meant."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from ottla.client.settings import require_known


def check_call(story: Callable[..., Any], arguments: tuple[Any, ...], named: Mapping[str, Any]) -> None:
    """Raise TypeError for a keyword that the story does not have, and for text where it takes several names.

    Text is a collection of letters: topics of one letter each would be meant.
    """
    parameters = list(inspect.signature(story).parameters.values())[1:]  # without the plan
    require_known(story.__name__, named, [each.name for each in parameters])
    given = dict(zip((each.name for each in parameters), arguments, strict=False)) | dict(named)
    for each in parameters:
        if str(each.annotation).startswith("Collection[") and isinstance(given.get(each.name), str | bytes):
            raise TypeError(f"{each.name} is a list, such as [{given[each.name]!r}], not {given[each.name]!r} alone")


def config_text(name: str, value: Any) -> str | None:
    """The value of an option as text; numbers, True and False are taken too. TypeError for anything else."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise TypeError(f"the option {name!r} is text or a number, not {value!r}, which is of type {type(value).__name__}")


def require_number(name: str, given: Any) -> int:
    """A whole number; TypeError for anything else."""
    if not isinstance(given, int) or isinstance(given, bool):
        raise TypeError(f"{name} is a whole number, not {given!r}, which is of type {type(given).__name__}")
    return given
