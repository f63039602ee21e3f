"""Values of options with a unit, such as `7d` or `1GiB`, as the plain numbers that brokers take.

The name of an option says what it counts. A plain number is left as it is: its option may have one for "no limit".
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ottla.config.option import ConfigError, Option, OptionKind
from ottla.kernel.quantities import DURATIONS, SIZES, duration_ms, size_bytes

_TIMES = {
    "ms": (1, "milliseconds"),
    "millis": (1, "milliseconds"),
    "secs": (1000, "seconds"),
    "seconds": (1000, "seconds"),
    "minutes": (60_000, "minutes"),
    "hours": (3_600_000, "hours"),
}
_BYTES = re.compile(
    r".*(\.bytes|buffer\.size|receive\.size|bytes\.per\.second|bytes\.between\.snapshots|throttled\.rate|batch\.size|buffer\.memory|request\.size)"
)
_NUMERIC = (OptionKind.INT, OptionKind.SHORT, OptionKind.LONG, OptionKind.DOUBLE)
_PLAIN = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*|[+-]?(Infinity|NaN)", re.ASCII)


def plain_number(option: Option, text: str) -> str:
    """The text with its unit worked out; ConfigError where it has none that fits. Texts of other kinds stay."""
    if option.kind not in _NUMERIC or _PLAIN.fullmatch(text):
        return text
    try:
        if _BYTES.fullmatch(option.name):
            return str(size_bytes(text))
        if (counted := _TIMES.get(option.name.rpartition(".")[2])) is not None:
            return _of_time(option, duration_ms(text), *counted)
    except ValueError as fault:
        raise ConfigError(f"Invalid value {text} for configuration {option.name}: {_without_text(fault)}") from None
    if _has_unit(text):
        raise ConfigError(
            f"Invalid value {text} for configuration {option.name}: it counts neither time nor bytes; "
            "write a number without a unit"
        )
    return text


def plain_numbers(texts: Mapping[str, str], options: Mapping[str, Option]) -> tuple[dict[str, str], list[str]]:
    """All texts, with the units of known options worked out, and the faults of those that have a wrong one."""
    plain: dict[str, str] = {}
    problems: list[str] = []
    for name, text in texts.items():
        try:
            plain[name] = plain_number(options[name], text) if name in options else text
        except ConfigError as fault:
            problems.extend(fault.problems)
            plain[name] = text
    return plain, problems


def _of_time(option: Option, ms: int, unit_ms: int, unit: str) -> str:
    if ms % unit_ms == 0:
        return str(ms // unit_ms)
    if option.kind is OptionKind.DOUBLE:
        return repr(ms / unit_ms)
    raise ValueError(f"it counts whole {unit}")


def _without_text(fault: ValueError) -> str:
    """The reason alone: the sentence around it names the value already."""
    reason = str(fault)
    for remedy in (DURATIONS, SIZES):
        if reason.endswith(remedy) and " is not a " in reason:
            kind = "duration" if remedy is DURATIONS else "size"
            return f"not a number or a {kind}; {remedy}"
    return reason


def _has_unit(text: str) -> bool:
    for parse in (duration_ms, size_bytes):
        try:
            parse(text)
        except ValueError:
            continue
        return True
    return False
