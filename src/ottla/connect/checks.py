"""Checks of options' values, with the words of Kafka's validators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.connect.config_def import Validator
from ottla.connect.errors import ConfigException


def one_of(*choices: str, any_case: bool = False) -> Validator:
    """The value is one of these."""
    known = {choice.upper() if any_case else choice for choice in choices}

    def check(name: str, value: Any) -> None:
        if value is None or (value.upper() if any_case else value) not in known:
            among = "one of (case insensitive): " if any_case else "one of: "
            raise ConfigException.of(name, value, f"String must be {among}{', '.join(choices)}")

    return check


def between(least: float | None = None, most: float | None = None) -> Validator:
    """The value is a number within these bounds."""

    def check(name: str, value: Any) -> None:
        if value is None:
            raise ConfigException.of(name, value, "Value must be non-null")
        if least is not None and value < least:
            raise ConfigException.of(name, value, f"Value must be at least {least}")
        if most is not None and value > most:
            raise ConfigException.of(name, value, f"Value must be no more than {most}")

    return check


def non_null(name: str, value: Any) -> None:
    """The value is there."""
    if value is None:
        raise ConfigException.of(name, value, "entry must be non null")


def non_empty_text(name: str, value: Any) -> None:
    """The value, where there is one, is not the empty text."""
    if value is not None and not value:
        raise ConfigException.of(name, value, "String must be non-empty")


def non_empty_list(name: str, value: Any) -> None:
    """The list holds something."""
    if not value:
        raise ConfigException.of(name, value if value is None else list(value), "Empty list")


def distinct(*, may_be_empty: bool) -> Validator:
    """The values of a list differ, and none is empty."""

    def check(name: str, value: Any) -> None:
        if value is None:
            raise ConfigException(f"Configuration '{name}' values must not be null.")
        if not value and not may_be_empty:
            raise ConfigException(
                f"Configuration '{name}' must not be empty. Valid values include: any non-empty value"
            )
        if len(set(value)) != len(value):
            raise ConfigException(f"Configuration '{name}' values must not be duplicated.")
        if "" in value:
            raise ConfigException(f"Configuration '{name}' values must not be empty.")

    return check


def all_of(*checks: Validator) -> Validator:
    """Every one of these holds; the first that does not speaks."""

    def check(name: str, value: Any) -> None:
        for each in checks:
            each(name, value)

    return check


def understood(read: Callable[[str], object], what: str = "") -> Validator:
    """Some function can read the value: a regular expression or a date pattern is refused before the first record."""

    def check(name: str, value: Any) -> None:
        try:
            read("" if value is None else value)
        except ValueError as fault:
            raise ConfigException.of(name, value, f"{what}{fault}") from None

    return check
