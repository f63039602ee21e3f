"""Options of plugins, each declared once: parsing, validation and Connect's REST answers follow from that.

Words and rules are those of Kafka's ConfigDef, so that tools which show or search its messages understand ours. Values
of the type CLASS stay text: the plugins' registry resolves them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from ottla.config.option import nearest
from ottla.connect.errors import ConfigException, shown

Validator = Callable[[str, Any], None]
"""Takes an option's name and parsed value; raises `ConfigException`."""

_LIMITS: Final = {"SHORT": 1 << 15, "INT": 1 << 31, "LONG": 1 << 63}
_INTEGER = re.compile(r"[+-]?\d+")
_DOUBLE = re.compile(r"[+-]?(NaN|Infinity|(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[fFdD]?)")
HIDDEN = "[hidden]"


class Type(Enum):
    """The type of an option's value."""

    BOOLEAN = "BOOLEAN"
    STRING = "STRING"
    INT = "INT"
    SHORT = "SHORT"
    LONG = "LONG"
    DOUBLE = "DOUBLE"
    LIST = "LIST"
    CLASS = "CLASS"
    PASSWORD = "PASSWORD"


class Importance(Enum):
    """The weight that a form gives to an option."""

    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"


class Width(Enum):
    """The width of an option's field in a form."""

    NONE = "NONE"
    SHORT = "SHORT"
    MEDIUM = "MEDIUM"
    LONG = "LONG"


class Password(str):
    """A secret: text for the plugin that it is for, `[hidden]` in every other place."""

    __slots__ = ()

    def __repr__(self) -> str:
        return HIDDEN

    __str__ = __repr__

    @property
    def value(self) -> str:
        """The secret itself."""
        return str.__getitem__(self, slice(None))


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Final = _Required()
"""Stands for the default of an option that has none."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option: its name, type and default, its checks, and its place in a form."""

    name: str
    type: Type
    default: Any = REQUIRED
    importance: Importance = Importance.MEDIUM
    doc: str = ""
    check: Validator | None = None
    group: str | None = None
    order: int = -1
    width: Width = Width.NONE
    display: str = ""
    dependents: tuple[str, ...] = ()
    recommended: Callable[[], Sequence[object]] = tuple

    @property
    def required(self) -> bool:
        """True if the option has no default."""
        return self.default is REQUIRED

    def definition(self) -> dict[str, object]:
        """The `definition` of Connect's REST answers."""
        return {
            "name": self.name,
            "type": self.type.value,
            "required": self.required,
            "default_value": None if self.required else text_of(self.default, self.type),
            "importance": self.importance.value,
            "documentation": self.doc,
            "group": self.group,
            "order_in_group": self.order,
            "width": self.width.value,
            "display_name": self.display or self.name,
            "dependents": list(self.dependents),
        }


@dataclass(slots=True)
class CheckedValue:
    """One option's value as parsed, and what is wrong with it."""

    option: Option
    value: Any = None
    errors: list[str] = field(default_factory=list)
    variable: str | None = None
    """The text of a configuration in whose place the value stands. Answers show the text alone."""

    def hide(self, variable: str) -> None:
        """Show the variable instead of its value, in faults too."""
        self.variable = variable
        if self.errors:
            reason = "the value that stands for it is not one that the option takes"
            self.errors = [str(ConfigException.of(self.option.name, variable, reason))]

    def answer(self) -> dict[str, object]:
        """The entry of `configs` in the answer of a validation."""
        value = {
            "name": self.option.name,
            "value": self.variable or text_of(self.value, self.option.type),
            "recommended_values": [shown(each) for each in self.option.recommended()],
            "errors": list(self.errors),
            "visible": True,
        }
        return {"definition": self.option.definition(), "value": value}


class ConfigDef:
    """The options of one plugin, in the order in which they were declared."""

    def __init__(self, *options: Option) -> None:
        self.options = {option.name: option for option in options}
        assert len(self.options) == len(options), "an option is declared twice"

    def __iter__(self) -> Iterator[Option]:
        return iter(self.options.values())

    def joined(self, *others: ConfigDef) -> ConfigDef:
        """These options and those of others behind them."""
        return ConfigDef(*self, *(option for other in others for option in other))

    def validate(self, given: Mapping[str, Any]) -> list[CheckedValue]:
        """Every option with its value and its faults."""
        return [_checked(option, given) for option in self]

    def parse(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Typed values of all options, or the first fault as `ConfigException`."""
        found = self.validate(given)
        for one in found:
            if one.errors:
                raise ConfigException(one.errors[0])
        return {one.option.name: one.value for one in found}

    def unknown(self, given: Mapping[str, Any]) -> list[str]:
        """A sentence for each key that is no option, with the nearest one. Kafka ignores such keys without a word."""
        strange = sorted(set(given) - set(self.options))
        return [f"Unknown configuration '{name}'{nearest(name, self.options)}" for name in strange]

    def definitions(self) -> list[dict[str, object]]:
        """The answer of `GET /connector-plugins/{plugin}/config`."""
        return [option.definition() for option in self]


def _checked(option: Option, given: Mapping[str, Any]) -> CheckedValue:
    """One option's value. A validator sees a missing value as None, as in Kafka."""
    found = CheckedValue(option)
    if option.name in given:
        try:
            found.value = parsed(option.name, given[option.name], option.type)
        except ConfigException as fault:
            found.errors.append(str(fault))
    elif option.required:
        found.errors.append(f'Missing required configuration "{option.name}" which has no default value.')
    else:
        found.value = option.default
    if option.check is not None:
        try:
            option.check(option.name, found.value)
        except ConfigException as fault:
            found.errors.append(str(fault))
            if option.type is Type.CLASS:
                found.value = None  # a class that is not there is no value
    return found


def parsed(name: str, value: Any, kind: Type) -> Any:
    """A value, as it stands in a configuration, as one of its option's type."""
    if value is None:
        return None
    if kind is Type.PASSWORD and isinstance(value, str):
        return value if isinstance(value, Password) else Password(value.strip())
    text = value.strip() if isinstance(value, str) else value
    match kind, text:
        case (Type.STRING | Type.CLASS, str()) | (Type.LIST, list()) | (Type.BOOLEAN, bool()):
            return text
        case Type.BOOLEAN, str() if text.lower() in ("true", "false"):
            return text.lower() == "true"
        case Type.LIST, str():
            return [part.strip() for part in text.split(",")] if text else []
        case Type.DOUBLE, str() if _DOUBLE.fullmatch(text):
            return float(text.rstrip("fFdD"))
        case Type.DOUBLE, int() | float() if not isinstance(text, bool):
            return float(text)
        case ((Type.INT | Type.SHORT | Type.LONG), str()) if _INTEGER.fullmatch(text) and _fits(int(text), kind):
            return int(text)
        case ((Type.INT | Type.SHORT | Type.LONG), int()) if not isinstance(text, bool) and _fits(text, kind):
            return text
    raise ConfigException.of(name, value, _expected(kind, text))


def _fits(number: int, kind: Type) -> bool:
    return -_LIMITS[kind.value] <= number < _LIMITS[kind.value]


def _expected(kind: Type, value: object) -> str:
    match kind, value:
        case Type.BOOLEAN, _:
            return "Expected value to be either true or false"
        case ((Type.INT | Type.SHORT | Type.LONG | Type.DOUBLE), str()):
            return f"Not a number of type {kind.value}"
        case Type.LIST, _:
            return "Expected a comma separated list."
    noun = {"INT": "32-bit integer", "SHORT": "16-bit integer (short)", "LONG": "64-bit integer (long)"}
    return f"Expected value to be a {noun.get(kind.value, kind.value.lower())}, but it was a {type(value).__name__}"


def text_of(value: Any, kind: Type) -> str | None:
    """A typed value as text, as REST answers show it."""
    if value is None:
        return None
    if kind is Type.PASSWORD:
        return HIDDEN
    if kind is Type.LIST:
        return ",".join(value)
    return shown(value)
