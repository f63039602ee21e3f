"""Command lines read as Kafka's tools read them (joptsimple): `--name value`, `--name=value`, no abbreviations."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, NoReturn

from ottla.cli.faults import Misuse
from ottla.kernel.quantities import duration_ms, moment_ms, size_bytes

_WIDTH = 80
_INTEGERS = {"Integer": 2**31, "Long": 2**63}


class Phrases(NamedTuple):
    """The words in which a command line is refused."""

    unknown: str
    takes_none: str
    needs_value: str
    several: str
    not_a_number: str
    stray: str


KAFKAS = Phrases(
    unknown="{name} is not a recognized option",
    takes_none="Option {name} does not take an argument",
    needs_value="Option {name} requires an argument",
    several="Found multiple arguments for option {name}, but you asked for only one",
    not_a_number="Cannot parse argument '{text}' of option {name}",
    stray="'{text}' belongs to no option; options are written --name value",
)
OURS = Phrases(
    unknown="there is no option {typed}",
    takes_none="--{name} takes no value, but was given {text!r}",
    needs_value="--{name} needs a value: --{name} {argument}",
    several="--{name} was given more than once",
    not_a_number="--{name} {text}: not a whole number, or one too large",
    stray="{text!r} belongs to no option; options are written --name value",
)


@dataclass(frozen=True, slots=True)
class Option:
    """One option. `argument`: the name of its value in the help, None for a switch.

    `kind`: String, Integer or Long; in ottla's own commands Duration, Size and Moment too.
    """

    name: str
    about: str = ""
    argument: str | None = None
    kind: str = "String"
    optional: bool = False
    """True if the value may be left out."""
    default: str | None = None
    short: str | None = None
    also: str | None = None
    """Another name by which it may be given."""
    choices: tuple[str, ...] = ()
    """All values that there are; empty if others may come."""
    bare: str | None = None
    """The unit of a duration that is a bare number; None if a unit must stand."""
    hidden: bool = False
    """True if the help leaves it out: it is for ottla's own processes."""


@dataclass(slots=True)
class Given:
    """The options of one command line."""

    parser: Parser
    values: dict[str, list[str]] = field(default_factory=dict)
    words: list[str] = field(default_factory=list)
    """Arguments that belong to no option."""
    origin: str = ""
    """The source of the cluster's address: -b, a profile, a variable, or the default."""

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def all(self, name: str) -> list[str]:
        return self.values.get(name, [])

    def text(self, name: str) -> str | None:
        """The value, or the default; Misuse if the option came more than once."""
        found = self.values.get(name)
        if not found:
            return self.parser.options[name].default
        if len(found) > 1:
            raise Misuse(self.parser.phrases.several.format(name=name))
        return found[0]

    def need(self, name: str) -> str:
        """The value of an option that was checked to be there or has a default."""
        found = self.text(name)
        assert found is not None
        return found

    def number(self, name: str) -> int | None:
        found = self.text(name)
        return None if found is None else self._parse(name, found)

    def count(self, name: str) -> int:
        """A number that has a default."""
        return self._parse(name, self.need(name))

    def duration_ms(self, name: str) -> int | None:
        """The milliseconds of a Duration, or None if it has no value."""
        found = self.text(name)
        return None if found is None else self._quantity(name, found)

    def moment_ms(self, name: str, now_ms: int) -> int | None:
        """The milliseconds since 1970 of a Moment, or None if it has no value."""
        found = self.text(name)
        return None if found is None else self._quantity(name, found, now_ms)

    def check_numbers(self) -> None:
        """Misuse if an option that takes a number or a quantity was given something else, used or not."""
        for name, texts in self.values.items():
            option = self.parser.options[name]
            for text in texts:
                if option.kind in _INTEGERS:
                    self._parse(name, text)
                elif option.kind in ("Duration", "Size"):
                    self._quantity(name, text)
                if option.choices and text not in option.choices:
                    near = nearest_word(text, option.choices)
                    instead = f"did you mean {near}?" if near else f"write {', '.join(option.choices)}"
                    raise Misuse(f"--{name} {text}: there is no such choice; {instead}")

    def _quantity(self, name: str, text: str, now_ms: int = 0) -> int:
        option = self.parser.options[name]
        try:
            if option.kind == "Size":
                return size_bytes(text)
            return moment_ms(text, now_ms) if option.kind == "Moment" else duration_ms(text, bare=option.bare)
        except ValueError as fault:
            raise Misuse(f"--{name}: {fault}") from None

    def _parse(self, name: str, text: str) -> int:
        bound = _INTEGERS.get(self.parser.options[name].kind, 2**63)
        try:
            value = int(text)
        except ValueError:
            value = bound
        if not -bound <= value < bound:
            raise Misuse(self.parser.phrases.not_a_number.format(name=name, text=text))
        return value


class Parser:
    """The options that a tool knows."""

    def __init__(
        self, about: str, options: Sequence[Option], *, words: bool = False, phrases: Phrases = KAFKAS
    ) -> None:
        """`words`: whether arguments may stand outside options; `phrases`: KAFKAS in Kafka's tools, else OURS."""
        common = [Option("help", "Print usage information.", short="h")]
        if phrases is KAFKAS:
            common.append(Option("version", "Display Kafka version."))
        self.about = about
        self.phrases = phrases
        self.options = {option.name: option for option in sorted([*options, *common], key=lambda each: each.name)}
        self._also = {option.also: option.name for option in self.options.values() if option.also is not None}
        self._short = {option.short: option.name for option in self.options.values() if option.short is not None}
        self._words = words

    def parse(self, arguments: Sequence[str], *, unchecked_numbers: bool = False) -> Given:
        """Read a command line; raises Misuse. Leave `check_numbers` to the caller if `unchecked_numbers`."""
        given = Given(self)
        waiting = list(arguments)
        while waiting:
            word = waiting.pop(0)
            if word == "--":
                given.words += waiting
                break
            if word.startswith("-") and word != "-":
                self._take(given, word, waiting)
            elif self._words:
                given.words.append(word)
            else:
                raise Misuse(self.phrases.stray.format(text=word))
        if not unchecked_numbers:
            given.check_numbers()
        return given

    def _take(self, given: Given, word: str, waiting: list[str]) -> None:
        """Put an option into `given`; its value may be the next of the waiting words."""
        option, equals, value = self._split(word)
        values = given.values.setdefault(option.name, [])
        argument = option.argument or "VALUE"
        if option.argument is None:
            if equals:
                raise Misuse(self.phrases.takes_none.format(name=option.name, text=value))
        elif equals:
            values.append(value)
        elif waiting and self._may_be_value(option, waiting[0]):
            values.append(waiting.pop(0))
        elif not option.optional:
            raise Misuse(self.phrases.needs_value.format(name=option.name, argument=argument))

    def _split(self, word: str) -> tuple[Option, str, str]:
        """The option that a word names, and what stands behind `=`, or, in our own commands, behind `-n`."""
        name, equals, value = word.lstrip("-").partition("=")
        if word.startswith("--"):
            option = self.options.get(self._also.get(name, name))
        else:
            option = self.options.get(self._short.get(name, ""))
            behind = self.options.get(self._short.get(word[1], ""))
            if option is None and self.phrases is OURS and behind is not None and behind.argument is not None:
                return behind, "=", word[2:]
        if option is None:
            typed = word.partition("=")[0]
            raise Misuse(self.phrases.unknown.format(name=name, typed=typed) + self._near(name))
        return option, equals, value

    def _may_be_value(self, option: Option, word: str) -> bool:
        if option.optional:
            return not word.startswith("-")
        return self.phrases is KAFKAS or not (word.startswith("--") and word[2:].partition("=")[0] in self.options)

    def read(self, arguments: Sequence[str], *, unchecked_numbers: bool = False) -> Given:
        """Like `parse`, but answer help, version and errors as Kafka's tools do; may end the program."""
        try:
            given = self.parse(arguments, unchecked_numbers=unchecked_numbers)
        except Misuse as fault:
            sys.stderr.write(f"{fault}\n")
            sys.exit(1)
        if "help" in given or not arguments:
            self.usage(self.about)
        if "version" in given:
            sys.stdout.write("4.3.1\n")
            sys.exit(0)
        return given

    def need(self, given: Given, *names: str) -> None:
        """End with usage where one of these options is missing."""
        for name in names:
            if name not in given:
                self.usage(f'Missing required argument "[{name}]"')

    def exclusive(self, given: Given, name: str, *others: str) -> None:
        """End with usage where `name` stands beside one of the others."""
        if name in given:
            for other in others:
                if other in given:
                    self.usage(f'Option "[{name}]" can\'t be used with option "[{other}]"')

    def usage(self, message: str) -> NoReturn:
        """Print a message and the options to stderr, exit code 1."""
        sys.stdout.flush()
        sys.stderr.write(f"{message}\n{self.table()}")
        sys.exit(1)

    def table(self) -> str:
        """All options with their descriptions."""
        heads = {option.name: _head(option) for option in self.options.values()}
        left = min(max(map(len, heads.values())), 38) + 2
        lines = [f"{'Option':<{left}} Description", f"{'------':<{left}} -----------"]
        for option in self.options.values():
            about = option.about + (f" (default: {option.default})" if option.default is not None else "")
            first = textwrap.wrap(heads[option.name], left, subsequent_indent="  ") or [""]
            second = textwrap.wrap(about, _WIDTH - left - 3, subsequent_indent="  ") or [""]
            for index in range(max(len(first), len(second))):
                one = first[index] if index < len(first) else ""
                two = second[index] if index < len(second) else ""
                lines.append(f"{one:<{left}} {two}".rstrip())
        return "\n".join(lines) + "\n"

    def _near(self, name: str) -> str:
        names = [option.name for option in self.options.values() if not option.hidden]
        near = nearest_word(name, [*names, *self._also]) if len(name) > 1 else None
        return f"; did you mean --{near}?" if near else ""


def nearest_word(text: str, known: Sequence[str]) -> str | None:
    """The known word most like a text: one that it begins, else one with most letters in common."""
    from difflib import get_close_matches

    begun = [word for word in known if word.startswith(text.lower()) and len(text) > 1]
    near = begun if len(begun) == 1 else get_close_matches(text.lower(), known, n=1)
    return near[0] if near else None


def _head(option: Option) -> str:
    short = f"-{option.short}, " if option.short else ""
    if option.argument is None:
        return f"{short}--{option.name}"
    inside = f"{option.kind}: {option.argument}" if option.argument else option.kind
    return f"{short}--{option.name} " + (f"[{inside}]" if option.optional else f"<{inside}>")
