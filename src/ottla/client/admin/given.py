"""Arguments of administration, refused by name where they cannot be meant."""

from __future__ import annotations

from typing import Any

from ottla.config.units import plain_number


def config_text(name: str, value: Any) -> str | None:
    """The value of an option as text; numbers, True and False are taken too, and units where a topic's option counts
    time or bytes: `7d`, `1GiB`. TypeError for anything else, ValueError for a unit that does not fit.
    """
    if value is None:
        return None
    if isinstance(value, str):
        return value if value.isdecimal() else _plain(name, value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise TypeError(f"the option {name!r} is text or a number, not {value!r}, which is of type {type(value).__name__}")


def _plain(name: str, text: str) -> str:
    from ottla.config.topic import TopicConfig

    option = TopicConfig.BY_NAME.get(name)
    return text if option is None else plain_number(option, text)


def require_number(name: str, given: Any) -> int:
    """A whole number; TypeError for anything else."""
    if not isinstance(given, int) or isinstance(given, bool):
        raise TypeError(f"{name} is a whole number, not {given!r}, which is of type {type(given).__name__}")
    return given
