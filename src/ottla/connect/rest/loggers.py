"""The levels of this process's loggers, by the names that Kafka gives levels."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from ottla.connect.machine.refusals import CallRefused

_LEVELS: Final = {
    "OFF": logging.CRITICAL + 10, "FATAL": logging.CRITICAL, "ERROR": logging.ERROR, "WARN": logging.WARNING,
    "INFO": logging.INFO, "DEBUG": logging.DEBUG, "TRACE": 5,
}  # fmt: skip


class Loggers:
    """All loggers of the process, the root by the name `root`."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._changed_ms: dict[str, int] = {}

    def all(self) -> dict[str, Any]:
        """Every logger with its level."""
        return {name: self._row(name) for name in sorted([*_known(), "root"])}

    def one(self, name: str) -> dict[str, Any]:
        """A logger's level; CallRefused where no logger has the name."""
        if name != "root" and name not in _known():
            raise CallRefused(404, f"Logger {name} not found.")
        return self._row(name)

    def set(self, name: str, level: str) -> list[str]:
        """Give a level to a logger and to those below it; the names of those that had another."""
        number = number_of(level)
        below = f"{name}."
        within = [each for each in [*_known(), "root"] if name in ("root", each) or each.startswith(below)]
        changed = sorted(each for each in within if _logger(each).getEffectiveLevel() != number)
        for each in changed:
            self._changed_ms[each] = self._now_ms()
        for each in within:
            if each != name and _logger(each).level != logging.NOTSET:
                _logger(each).setLevel(number)
        _logger(name).setLevel(number)
        return changed

    def _row(self, name: str) -> dict[str, Any]:
        return {"level": _level_name(_logger(name).getEffectiveLevel()), "last_modified": self._changed_ms.get(name)}


def number_of(level: str) -> int:
    """Python's number of a level; CallRefused for an unknown one."""
    if level.upper() not in _LEVELS:
        raise CallRefused(404, f"invalid log level '{level}'.")
    return _LEVELS[level.upper()]


def _known() -> list[str]:
    known = logging.Logger.manager.loggerDict.items()
    return [name for name, each in known if isinstance(each, logging.Logger)]


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == "root" else name)


def _level_name(number: int) -> str:
    return next((name for name, each in _LEVELS.items() if each <= number), "TRACE")
