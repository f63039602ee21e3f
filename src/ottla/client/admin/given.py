"""Arguments of administration, refused by name where they cannot be meant."""

from __future__ import annotations

from typing import Any


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
