"""Options of a job, each declared once: flags, keyword arguments, property files and documentation follow from that.

Pure but for the parser of arguments, which is the caller's. Connectors declare theirs as Kafka's ConfigDef has them.
"""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from typing import TypeGuard, cast

from ottla.kernel.quantities import duration_ms, size_bytes

HIDDEN = "[hidden]"


class JobOptionKind(Enum):
    """The type of an option's value."""

    TEXT = "text"
    SECRET = "text that is not shown"
    FLAG = "True or False"
    NAMES = "names, commas between or as a list"
    LIST = "a list of texts"
    SIZE = "a size such as 64MiB"
    DURATION = "a duration such as 90s"
    COUNT = "a number above 0"
    PORT = "a port, 0 to 65535"


class KeptFor(Enum):
    """The time for which an option has its value, in jobs that keep their options."""

    ONCE = "for this run"
    LATEST = "until a run says otherwise"
    FOR_GOOD = "for good"


class OptionRefused(ValueError):
    """The value of an option is not allowed; the sentence says what to write."""


@dataclass(frozen=True, slots=True)
class JobOption:
    """One option. Its flag is `--name` with dashes, unless `flag` names another."""

    name: str
    kind: JobOptionKind
    default: object
    doc: str
    kept: KeptFor = KeptFor.LATEST
    group: str = ""
    metavar: str = ""
    choices: tuple[str, ...] = ()
    flag: str = ""
    aliases: tuple[str, ...] = ()
    """Values that are taken beside the choices, and not shown."""

    @property
    def spelt(self) -> str:
        """The option as the command line has it."""
        return self.flag or f"--{self.name.replace('_', '-')}"

    @property
    def property_name(self) -> str:
        """The option as property files have it."""
        return self.name.replace("_", ".")

    def shown(self, value: object) -> str:
        """A value for logs and pages."""
        return HIDDEN if self.kind is JobOptionKind.SECRET and value else str(value)


class JobOptions:
    """The options of one kind of job."""

    def __init__(self, owner: str, options: Iterable[JobOption], *, beside: Sequence[str] = ()) -> None:
        """`owner`: the function or job in refusals; `beside`: its other arguments, for the nearest name."""
        self.owner = owner
        self.all = tuple(options)
        self.by_name = {option.name: option for option in self.all}
        assert len(self.by_name) == len(self.all), "an option is declared twice"
        self._beside = tuple(beside)

    @property
    def defaults(self) -> dict[str, object]:
        """The declared default of each option."""
        return {option.name: option.default for option in self.all}

    def checked(self, given: Mapping[str, object]) -> dict[str, object]:
        """Keyword arguments, their values checked; None leaves an option out.

        TypeError for a name that does not exist or a value of another type, OptionRefused for one that is not allowed.
        """
        for name in given:
            if name not in self.by_name:
                raise TypeError(self._no_option(name, [*self.by_name, *self._beside]))
        return {name: value_of(self.by_name[name], value) for name, value in given.items() if value is not None}

    def of_properties(self, texts: Mapping[str, str]) -> dict[str, object]:
        """The options of a property file or of a map of texts, by keyword. OptionRefused tells all that is wrong."""
        by_property = {option.property_name: option for option in self.all}
        found: dict[str, object] = {}
        problems: list[str] = []
        for name, text in texts.items():
            if name not in by_property:
                problems.append(self._no_option(name, list(by_property)))
                continue
            try:
                found[by_property[name].name] = value_of_text(by_property[name], text)
            except OptionRefused as fault:
                problems.append(str(fault).replace(by_property[name].spelt, name, 1))
        if problems:
            raise OptionRefused("\n".join(problems))
        return found

    def text(self) -> str:
        """Lines about all options, for a docstring."""
        lines = ["    Options:", ""]
        for option in self.all:
            default = "" if option.default in ("", None, ()) else f"; default {option.shown(option.default)}"
            lines += textwrap.wrap(
                f"{option.name}: {option.doc}{default}", 112, initial_indent="    ", subsequent_indent="        "
            )
        return "\n".join(lines)

    def _no_option(self, name: str, known: Sequence[str]) -> str:
        near = get_close_matches(name, known, n=1)
        return f"{self.owner} has no option {name}" + (f"; did you mean {near[0]}?" if near else "")


def value_of(option: JobOption, value: object) -> object:
    """A value of an option, as the job has it."""
    match option.kind:
        case JobOptionKind.FLAG if isinstance(value, bool):
            return value
        case JobOptionKind.TEXT | JobOptionKind.SECRET if isinstance(value, str):
            return _chosen(option, value)
        case JobOptionKind.NAMES if isinstance(value, str):
            return value
        case JobOptionKind.NAMES if _is_texts(value):
            return _joined(option, value)
        case JobOptionKind.LIST if _is_texts(value):
            return tuple(value)
        case JobOptionKind.LIST if isinstance(value, str):
            return (value,)
        case JobOptionKind.SIZE | JobOptionKind.DURATION if isinstance(value, str) or _is_number(value):
            return _quantity(option, value)
        case JobOptionKind.COUNT | JobOptionKind.PORT if _is_number(value):
            return _number(option, value)
    raise TypeError(f"{option.name} is {option.kind.value}, not {option.shown(repr(value))}")


def value_of_text(option: JobOption, text: str) -> object:
    """A value of an option from its text in a property file."""
    stripped = text.strip()
    if option.kind is JobOptionKind.FLAG:
        if stripped.lower() not in ("true", "false"):
            raise OptionRefused(f"{option.spelt} {stripped}: write true or false")
        return stripped.lower() == "true"
    if option.kind is JobOptionKind.LIST:
        return tuple(each.strip() for each in stripped.split(",")) if stripped else ()
    return value_of(
        option, number_of(option, stripped) if option.kind in (JobOptionKind.COUNT, JobOptionKind.PORT) else stripped
    )


def number_of(option: JobOption, text: str) -> int:
    """The number in the text of a COUNT or a PORT."""
    if not (text.isascii() and text.isdigit()):
        raise OptionRefused(
            f"{option.spelt}: not a {'port' if option.kind is JobOptionKind.PORT else 'positive number'}: {text}"
        )
    return int(text)


def add_flag(
    group: argparse._ActionsContainer,
    option: JobOption,
    *also: str,
    read: Callable[[str], object],
    place: str = "",
) -> None:
    """Declare an option for argparse, at `place` or under its name. None stands for one that was not given.

    A FLAG has a `--no-` beside it. `also` are other flags; `read` makes a value of a text, for other kinds than FLAG.
    """
    flags, place = [*also, option.spelt], place or option.name
    if option.kind is JobOptionKind.FLAG:
        group.add_argument(*flags, dest=place, action="store_const", const=True, help=option.doc)
        group.add_argument(
            f"--no-{option.spelt[2:]}", dest=place, action="store_const", const=False, help=argparse.SUPPRESS
        )
        return
    group.add_argument(
        *flags, dest=place, type=read, help=_help(option), metavar=option.metavar or None,
        choices=option.choices or None, action="append" if option.kind is JobOptionKind.LIST else "store",
    )  # fmt: skip


def typed(option: JobOption) -> Callable[[str], object]:
    """The reader of an option's text on the command line; argparse shows the sentence of a refusal."""

    def read(text: str) -> object:
        try:
            if option.kind is JobOptionKind.LIST:
                return text
            return value_of(
                option, number_of(option, text) if option.kind in (JobOptionKind.COUNT, JobOptionKind.PORT) else text
            )
        except OptionRefused as fault:
            raise argparse.ArgumentTypeError(str(fault).partition(": ")[2] or str(fault)) from fault

    return read


def _help(option: JobOption) -> str:
    shown = option.shown(option.default or "")
    if isinstance(option.default, int):
        shown = f"{option.default >> 20}MiB" if option.kind is JobOptionKind.SIZE else f"{option.default:,}"
    text = f"{option.doc}; default {shown}" if shown and option.kind is not JobOptionKind.LIST else option.doc
    return text.replace("%", "%%")


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_texts(value: object) -> TypeGuard[list[str] | tuple[str, ...]]:
    return isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)


def _joined(option: JobOption, names: Sequence[str]) -> str:
    if odd := [name for name in names if "," in name]:
        raise OptionRefused(f"{option.name}: the name {odd[0]!r} holds a comma, which stands between names")
    return ",".join(names)


def _chosen(option: JobOption, text: str) -> str:
    if option.choices and text not in option.choices and text not in option.aliases:
        near = get_close_matches(text, option.choices, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise OptionRefused(f"{option.spelt} {text}: give one of {', '.join(option.choices)}{hint}")
    return text


def _quantity(option: JobOption, value: object) -> int:
    read = size_bytes if option.kind is JobOptionKind.SIZE else duration_ms
    try:
        number = read(value) if isinstance(value, str) else cast("int", value)
    except ValueError as fault:
        raise OptionRefused(f"{option.spelt}: {fault}") from None
    if number <= 0:
        raise OptionRefused(
            f"{option.spelt} {value}: give a {'size' if option.kind is JobOptionKind.SIZE else 'duration'} above 0"
        )
    return number


def _number(option: JobOption, value: object) -> int:
    number = cast("int", value)
    if option.kind is JobOptionKind.COUNT and number <= 0:
        raise OptionRefused(f"{option.spelt} {number}: give a number above 0")
    if option.kind is JobOptionKind.PORT and not 0 <= number <= 65_535:
        raise OptionRefused(f"{option.spelt} {number}: give a port, 0 to 65535")
    return number
