"""Settings that check themselves when they are made, and take the words of Kafka's documentation.

A class of settings declares each field once: its default, what it takes, its bounds. Refusals name the setting.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Any, ClassVar, Generic, TypeVar

from ottla.kernel.quantities import fine_duration_ms, size_bytes

Kept_co = TypeVar("Kept_co", covariant=True)
Taken_contra = TypeVar("Taken_contra", contravariant=True)
S = TypeVar("S", bound="Settings")

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
_NUMBER = re.compile(r"[-+]?[0-9]+(?:\.[0-9]+)?")
_NAMES_ELSEWHERE = {
    "bootstrap_servers": "bootstrap",
    "brokers": "bootstrap",
    "compression_codec": "compression",
    "compression_type": "compression",
    "default_api_timeout_ms": "api_timeout_ms",
    "fetch_max_bytes": "max_bytes",
    "fetch_max_wait_ms": "max_wait_ms",
    "fetch_message_max_bytes": "max_partition_bytes",
    "fetch_min_bytes": "min_bytes",
    "fetch_wait_max_ms": "max_wait_ms",
    "group": "group_id",
    "group_instance_id": "instance_id",
    "max_partition_fetch_bytes": "max_partition_bytes",
    "message_timeout_ms": "delivery_timeout_ms",
    "partition_assignment_strategy": "assignors",
    "queue_buffering_max_ms": "linger_ms",
    "request_required_acks": "acks",
    "socket_connection_setup_timeout_ms": "connect_timeout_ms",
    "transaction_id": "transactional_id",
}
"""Names of the same settings in Kafka's documentation and in other Python clients."""


class Setting(Generic[Kept_co, Taken_contra]):
    """One field of a class of settings: `Kept_co` is read from it, `Taken_contra` is what may be given."""

    allowed = ""
    """Completes the sentence "NAME is ...": what may be given."""

    def __init__(self, default: Kept_co) -> None:
        self.default = default

    def __set_name__(self, owner: type, name: str) -> None:
        owner._declared = {**owner._declared, name: self}  # type: ignore[attr-defined]

    def __get__(self, instance: object, owner: type | None = None) -> Kept_co:
        return self.default  # dataclass asks the class for it; an instance has a slot instead

    def __set__(self, instance: object, value: Taken_contra) -> None:
        """Tell type checkers what `__init__` takes: settings do not change once they are made."""
        raise AttributeError("settings do not change: dataclasses.replace makes others")

    def read(self, name: str, given: Any) -> Any:
        """The value to keep; TypeError or ValueError names the setting, the value and what is allowed."""
        raise NotImplementedError


class ChoiceText(Setting[Kept_co, "str | Kept_co"]):
    """One of some values, given as such or by its word."""

    def __init__(self, default: Kept_co, words: Mapping[str, Kept_co]) -> None:
        super().__init__(default)
        self._words = words
        shown = [repr(word) if not word.lstrip("-").isdecimal() else word for word in words]
        self.allowed = f"{', '.join(shown[:-1])} or {shown[-1]}"

    def read(self, name: str, given: Any) -> Any:
        if isinstance(given, str):
            word = given.strip().lower()
            if word in self._words:
                return self._words[word]
            raise refused(name, given, self.allowed, near=difflib.get_close_matches(word, self._words, n=1))
        for value in self._words.values():
            if not isinstance(given, bool) and type(given) in (type(value), int) and given == value:
                return value
        raise refused(name, given, self.allowed, wrong_type=not isinstance(given, int) or isinstance(given, bool))


class Named(Setting[Kept_co, "str | Kept_co"]):
    """A function or object of the caller's, or the name of one of ours."""

    def __init__(self, default: Kept_co, ours: Mapping[str, Kept_co], fits: Callable[[Any], bool], kind: str) -> None:
        super().__init__(default)
        self._ours, self._fits = ours, fits
        self.allowed = f"{kind}, or one of {', '.join(map(repr, ours))}"

    def read(self, name: str, given: Any) -> Any:
        if isinstance(given, str):
            if given in self._ours:
                return self._ours[given]
            raise refused(name, given, self.allowed, near=difflib.get_close_matches(given, self._ours, n=1))
        if not self._fits(given):
            raise refused(name, given, self.allowed, wrong_type=True)
        return given


class Flag(Setting[bool, "bool | str"]):
    """True or False, or Kafka's words for them."""

    allowed = "True or False"

    def read(self, name: str, given: Any) -> bool:
        if isinstance(given, bool):
            return given
        if isinstance(given, str) and given.strip().lower() in ("true", "false"):
            return given.strip().lower() == "true"
        raise refused(name, given, self.allowed, wrong_type=not isinstance(given, str))


class Text(Setting[str, str]):
    """Text that is not empty."""

    allowed = "text that is not empty"

    def read(self, name: str, given: Any) -> Any:
        if not isinstance(given, str) or not given:
            raise refused(name, given, self.allowed, wrong_type=not isinstance(given, str))
        return given


class OptionalText(Setting["str | None", "str | None"]):
    """Text that is not empty, or None."""

    allowed = "text that is not empty, or None"

    def read(self, name: str, given: Any) -> Any:
        if given is None or (isinstance(given, str) and given):
            return given
        raise refused(name, given, self.allowed, wrong_type=not isinstance(given, str))


class _Amount(Setting[Kept_co, Taken_contra]):
    """A number between two bounds, also as text with a unit."""

    kind = "a whole number"
    whole = True

    def __init__(self, default: Kept_co, *, least: int = 0, most: int = INT32_MAX) -> None:
        super().__init__(default)
        self._least, self._most = least, most
        self.allowed = f"{self.kind}, from {least} to {most}"

    def read(self, name: str, given: Any) -> Any:
        found = self._in_units(name, given)
        is_whole = found == found.to_integral_value()
        if not self._least <= found <= self._most or (self.whole and not is_whole):
            raise refused(name, given, self.allowed)
        return int(found) if is_whole else float(found)

    def read_text(self, text: str) -> Decimal | int:
        """The amount that a text with a unit means; ValueError where it means none."""
        raise ValueError

    def _in_units(self, name: str, given: Any) -> Decimal:
        if isinstance(given, timedelta) and isinstance(self, _Duration):
            return Decimal(given // timedelta(microseconds=1)) / 1000
        if isinstance(given, str):
            try:
                return Decimal(given.strip() if _NUMBER.fullmatch(given.strip()) else self.read_text(given))
            except ValueError as fault:
                raise refused(name, given, self.allowed) from fault
        if isinstance(given, bool) or not isinstance(given, int | float):
            raise refused(name, given, self.allowed, wrong_type=True)
        if not math.isfinite(given):
            raise refused(name, given, self.allowed)
        return Decimal(given)


class _Duration(_Amount[Kept_co, Taken_contra]):
    """Milliseconds, also as text with a unit, or a timedelta."""

    def read_text(self, text: str) -> Decimal:
        return fine_duration_ms(text)


class Number(_Amount[int, "int | str"]):
    """A whole number, also as text."""


class OptionalNumber(_Amount["int | None", "int | str | None"]):
    """A whole number, also as text, or None."""

    kind = "None or a whole number"

    def read(self, name: str, given: Any) -> Any:
        return None if given is None else super().read(name, given)


class Size(_Amount[int, "int | str"]):
    """A number of bytes, also as text with a unit."""

    kind = "a whole number of bytes or text such as '64KiB' or '1MiB'"

    def read_text(self, text: str) -> int:
        return size_bytes(text)


class Milliseconds(_Duration[int, "int | str | timedelta"]):
    """A whole number of milliseconds, also as text with a unit, or a timedelta."""

    kind = "a whole number of milliseconds, text such as '500ms' or '5s', or a timedelta"


class FineMilliseconds(_Duration[float, "float | str | timedelta"]):
    """Milliseconds with fractions, also as text with a unit, or a timedelta."""

    kind = "a number of milliseconds, text such as '500ms' or '5s', or a timedelta"
    whole = False


class Settings:
    """The base of the classes of settings: reads every declared field as it is made, refuses fields there are not."""

    __slots__ = ()
    _declared: ClassVar[dict[str, Setting[Any, Any]]] = {}

    def __new__(cls, *_: object, **given: object) -> Settings:
        """Refuse keywords that are no fields, by name and with the nearest one."""
        names = field_names(cls)
        for name, inner in _inner(cls).items():
            for other in [each for each in given if each not in names and each in field_names(inner)]:
                made = f"{name}={inner.__name__}({other}=...)"
                raise TypeError(f"{cls.__name__} has no setting {other!r} of its own: give {made}")
        require_known(cls.__name__, given, names)
        return object.__new__(cls)

    def __post_init__(self) -> None:
        for name, declared in self._declared.items():
            object.__setattr__(self, name, declared.read(name, getattr(self, name)))


def field_names(kind: type[Settings]) -> list[str]:
    """The names of the fields of a class of settings."""
    return [each.name for each in dataclasses.fields(kind)]  # type: ignore[arg-type]


def _inner(kind: type[Settings]) -> dict[str, type[Settings]]:
    """The fields that are settings themselves, with their classes."""
    fields = dataclasses.fields(kind)  # type: ignore[arg-type]
    made: list[tuple[str, object]] = [(each.name, each.default_factory) for each in fields]
    return {name: each for name, each in made if isinstance(each, type) and issubclass(each, Settings)}


def require_known(caller: str, given: Iterable[str], known: Iterable[str], *, what: str = "setting") -> None:
    """Raise TypeError for the first name that is not known, with the nearest one that is."""
    names = list(known)
    for name in given:
        if name not in names:
            raise TypeError(f"{caller} has no {what} {name!r}{_nearest(name, names)}")


def completed(settings: S, given: Mapping[str, object]) -> S:
    """The settings with those of the given values that are theirs in place of their own."""
    own = field_names(type(settings))
    changed = {name: value for name, value in given.items() if name in own}
    return dataclasses.replace(settings, **changed) if changed else settings  # type: ignore[type-var]


def require_kind(name: str, given: object, kind: type[object]) -> None:
    """Raise TypeError unless `given` is of the class, or None."""
    if given is not None and not isinstance(given, kind):
        raise refused(name, given, f"a {kind.__name__}", wrong_type=True)


def refused(
    name: str, given: object, allowed: str, *, near: Iterable[str] = (), wrong_type: bool = False
) -> ValueError | TypeError:
    """The error for a value that a setting does not take."""
    shown = repr(given) if len(repr(given)) <= 80 else f"{repr(given)[:77]}..."
    hint = "".join(f"; did you mean {word!r}?" for word in near)
    if wrong_type:
        return TypeError(f"{name} is {allowed}, not {shown}, which is of type {type(given).__name__}{hint}")
    return ValueError(f"{name} is {allowed}, not {shown}{hint}")


def _nearest(name: str, known: list[str]) -> str:
    plain = re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()).strip("_")
    near = next((each for each in (plain, _NAMES_ELSEWHERE.get(plain)) if each in known), None)
    if near is None:
        near = next(iter(difflib.get_close_matches(plain, known, n=1)), None)
    if near is not None:
        return f"; did you mean {near}?"
    return f"; it has {', '.join(sorted(known)) or 'none'}"
