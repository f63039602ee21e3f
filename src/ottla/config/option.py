"""The declaration of an option: once, with its name, type, default, check, synonyms and documentation.

`topic.py`, `group.py` and `broker.py` hold the declarations; `resolve.py` fills them with values; DescribeConfigs,
the reference pages and the command line are derived from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum, IntEnum
from typing import ClassVar, Self, TypeVar, cast

from ottla.kernel.java_numbers import double_text, parse_double

T = TypeVar("T")
Value = bool | int | float | str | tuple[str, ...] | None
Check = Callable[[Value], str | None]
"""Says in a sentence what is wrong with a value, or None."""


class OptionKind(IntEnum):
    """The type of an option; the numbers are those of DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class OptionStatus(Enum):
    """The broker's use of an option."""

    HONOURED = "honoured"
    REFUSED = "refused"
    """Any value but the default is an error that names the option: to ignore it would break a promise."""
    NO_EFFECT = "no effect"
    """Known, accepted with a warning: it tunes something that is not built that way here."""


class Scope(Enum):
    """The brokers for which an option can be changed while they run."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class ConfigError(ValueError):
    """One or more options are wrong; each sentence names its option."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class Synonym:
    """A broker option that gives a topic or group option its default, times `factor` where the units differ."""

    __slots__ = ("factor", "name")

    def __init__(self, name: str, factor: int = 1) -> None:
        self.name = name
        self.factor = factor


class Option:
    """One declared option."""

    __slots__ = ("attribute", "check", "default", "doc", "internal", "kind", "name", "scope", "status", "synonyms")

    def __init__(
        self,
        name: str,
        default: Value,
        kind: OptionKind,
        *,
        check: Check | None = None,
        broker_name: str | tuple[Synonym, ...] = (),
        doc: str = "",
        status: OptionStatus = OptionStatus.HONOURED,
        scope: Scope = Scope.READ_ONLY,
        internal: bool = False,
    ) -> None:
        self.name = name
        self.default = default
        self.kind = kind
        self.check = check
        self.synonyms = (Synonym(broker_name),) if isinstance(broker_name, str) else broker_name
        self.doc = doc
        self.status = status
        self.scope = scope
        self.internal = internal
        self.attribute = name.replace(".", "_")

    @property
    def sensitive(self) -> bool:
        return self.kind is OptionKind.PASSWORD

    def parse(self, text: str) -> Value:
        """The value behind a text; ConfigError where the text is none, is out of bounds, or the option is refused."""
        value = self._of_kind(text.strip())
        if isinstance(value, tuple) and "" in value:
            raise ConfigError(f"Configuration '{self.name}' values must not be empty.")
        text = "[hidden]" if self.sensitive else text
        if self.check is not None and (wrong := self.check(value)) is not None:
            raise ConfigError(f"Invalid value {text} for configuration {self.name}: {wrong}")
        if self.status is OptionStatus.REFUSED and value != self.default:
            raise ConfigError(f"Invalid value {text} for configuration {self.name}: not supported here. {self.doc}")
        return value

    def text(self, value: Value) -> str | None:
        """The value as Kafka's tools print it."""
        if value is None or isinstance(value, str):
            return value
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, tuple):
            return ",".join(value)
        return double_text(value) if isinstance(value, float) else str(value)

    def _of_kind(self, text: str) -> Value:
        try:
            return _PARSERS[self.kind](text)
        except ValueError as fault:
            raise ConfigError(f"Invalid value {text} for configuration {self.name}: {fault}") from fault


def _boolean(text: str) -> bool:
    lowered = text.lower()
    if lowered not in ("true", "false"):
        raise ValueError("Expected value to be either true or false")
    return lowered == "true"


def _integer_of(name: str, bits: int) -> Callable[[str], int]:
    bound = 1 << (bits - 1)

    def parse(text: str) -> int:
        digits = text[1:] if text[:1] in "+-" else text
        if not (digits.isascii() and digits.isdigit() and len(digits) < 40 and -bound <= int(text) < bound):
            raise ValueError(f"Not a number of type {name}")
        return int(text)

    return parse


def integer(text: str) -> int | None:
    """The number of 32 bits that a text is, in Java's spelling; None for any other text."""
    try:
        return _integer_of("INT", 32)(text)
    except ValueError:
        return None


def _double(text: str) -> float:
    try:
        return parse_double(text)
    except ValueError:
        raise ValueError("Not a number of type DOUBLE") from None


def _list(text: str) -> tuple[str, ...]:
    """The parts between commas, each once, as Kafka takes them (KIP-1161)."""
    return tuple(dict.fromkeys(part.strip() for part in text.split(","))) if text else ()


_PARSERS: dict[OptionKind, Callable[[str], Value]] = {
    OptionKind.BOOLEAN: _boolean,
    OptionKind.STRING: str,
    OptionKind.INT: _integer_of("INT", 32),
    OptionKind.SHORT: _integer_of("SHORT", 16),
    OptionKind.LONG: _integer_of("LONG", 64),
    OptionKind.DOUBLE: _double,
    OptionKind.LIST: _list,
    OptionKind.CLASS: str,
    OptionKind.PASSWORD: str,
}


def at_least(low: int | float) -> Check:
    """Refuses a smaller number, and what is not a number (NaN)."""

    def check(value: Value) -> str | None:
        return f"Value must be at least {low}" if isinstance(value, int | float) and not value >= low else None

    return check


def between(low: int | float, high: int | float) -> Check:
    """Refuses a smaller number, a greater one, and what is not a number (NaN)."""

    def check(value: Value) -> str | None:
        if isinstance(value, int | float) and not value >= low:
            return f"Value must be at least {low}"
        if isinstance(value, int | float) and value > high:
            return f"Value must be no more than {high}"
        return None

    return check


def positive(value: Value) -> str | None:
    """A check: refuses 0, what is below it, and what is not a number (NaN)."""
    return "Value must be greater than 0" if isinstance(value, int | float) and not value > 0 else None


def one_of(*allowed: str) -> Check:
    def check(value: Value) -> str | None:
        return None if value in allowed else f"String must be one of: {', '.join(allowed)}"

    return check


def some_of(*allowed: str) -> Check:
    """A list of the allowed words; an empty list passes."""

    def check(value: Value) -> str | None:
        words = value if isinstance(value, tuple) else ()
        return None if set(words) <= set(allowed) else f"String must be one of: {', '.join(allowed)}"

    return check


def option(
    name: str,
    default: T,
    kind: OptionKind,
    *,
    check: Check | None = None,
    broker_name: str | tuple[Synonym, ...] = (),
    doc: str = "",
    status: OptionStatus = OptionStatus.HONOURED,
    scope: Scope = Scope.READ_ONLY,
    internal: bool = False,
) -> T:
    """Declare an option in the body of an `OptionSet`; on an instance the attribute holds the value."""
    declared = Option(
        name,
        cast(Value, default),
        kind,
        check=check,
        broker_name=broker_name,
        doc=doc,
        status=status,
        scope=scope,
        internal=internal,
    )
    return cast(T, declared)


class _OptionSetType(type):
    """Turns the declarations of a class body into slots, OPTIONS and BY_NAME."""

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, object]) -> _OptionSetType:
        declared = {key: value for key, value in namespace.items() if isinstance(value, Option)}
        for attribute, value in declared.items():
            value.attribute = attribute
            del namespace[attribute]
        namespace["__slots__"] = tuple(declared)
        namespace["OPTIONS"] = tuple(declared.values())
        namespace["BY_NAME"] = {value.name: value for value in declared.values()}
        return super().__new__(cls, name, bases, namespace)


class OptionSet(metaclass=_OptionSetType):
    """Values for every option of a class; does not change once made."""

    OPTIONS: ClassVar[tuple[Option, ...]]
    BY_NAME: ClassVar[Mapping[str, Option]]

    def __init__(self, **values: object) -> None:
        """By attribute name; what is not given has its default. Values are taken as they are: `parse` checks texts."""
        for declared in self.OPTIONS:
            object.__setattr__(self, declared.attribute, values.pop(declared.attribute, declared.default))
        if values:
            raise TypeError(f"{type(self).__name__} has no option {', '.join(sorted(values))}")

    @classmethod
    def of_texts(cls, texts: Mapping[str, str]) -> Self:
        """From texts by option name, each checked; names of other sets are passed over."""
        problems: list[str] = []
        values: dict[str, object] = {}
        for name, text in texts.items():
            if (declared := cls.BY_NAME.get(name)) is not None:
                try:
                    values[declared.attribute] = declared.parse(text)
                except ConfigError as fault:
                    problems.extend(fault.problems)
        if problems:
            raise ConfigError(*problems)
        return cls(**values)

    def value(self, name: str) -> Value:
        """By option name."""
        return cast(Value, getattr(self, self.BY_NAME[name].attribute))

    def replace(self, **values: object) -> Self:
        kept: dict[str, object] = {declared.attribute: getattr(self, declared.attribute) for declared in self.OPTIONS}
        return type(self)(**(kept | values))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} does not change: replace() makes another")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and all(
            getattr(self, declared.attribute) == getattr(other, declared.attribute) for declared in self.OPTIONS
        )

    def __hash__(self) -> int:
        return hash(tuple(getattr(self, declared.attribute) for declared in self.OPTIONS))

    def __repr__(self) -> str:
        changed = (
            f"{declared.attribute}={getattr(self, declared.attribute)!r}"
            for declared in self.OPTIONS
            if getattr(self, declared.attribute) != declared.default
        )
        return f"{type(self).__name__}({', '.join(changed)})"


def nearest(name: str, known: Iterable[str]) -> str:
    """' (did you mean x?)' for a misspelt option, or nothing."""
    import difflib  # only on the way to an error

    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f" (did you mean {close[0]}?)" if close else ""
