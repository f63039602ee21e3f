"""Command lines read as Kafka's tools read them (joptsimple): `--name value`, `--name=value`, no abbreviations."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from ottla.cli.faults import Misuse

_WIDTH = 80
_INTEGERS = {"Integer": 2**31, "Long": 2**63}


@dataclass(frozen=True, slots=True)
class Option:
    """One option. `argument`: the name of its value in the help, None for a switch; `kind`: String, Integer or Long."""

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


@dataclass(slots=True)
class Given:
    """The options of one command line."""

    parser: Parser
    values: dict[str, list[str]] = field(default_factory=dict)
    words: list[str] = field(default_factory=list)
    """Arguments that belong to no option."""

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
            raise Misuse(f"Found multiple arguments for option {name}, but you asked for only one")
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

    def check_numbers(self) -> None:
        """Misuse if an option that takes a number was given something else, used or not."""
        for name, texts in self.values.items():
            if self.parser.options[name].kind in _INTEGERS:
                for text in texts:
                    self._parse(name, text)

    def _parse(self, name: str, text: str) -> int:
        bound = _INTEGERS.get(self.parser.options[name].kind, 2**63)
        try:
            value = int(text)
        except ValueError:
            value = bound
        if not -bound <= value < bound:
            raise Misuse(f"Cannot parse argument '{text}' of option {name}")
        return value


class Parser:
    """The options that a tool knows."""

    def __init__(self, about: str, options: Sequence[Option], *, words: bool = False) -> None:
        common = [Option("help", "Print usage information.", short="h"), Option("version", "Display Kafka version.")]
        self.about = about
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
            if not word.startswith("-") or word == "-":
                if not self._words:
                    raise Misuse(f"'{word}' belongs to no option; options are written --name value")
                given.words.append(word)
                continue
            name, equals, value = word.lstrip("-").partition("=")
            name = self._also.get(name, name) if word.startswith("--") else self._short.get(name, name)
            option = self.options.get(name)
            if option is None or (not word.startswith("--") and option.short != word[1:].partition("=")[0]):
                raise Misuse(f"{name} is not a recognized option{self._near(name)}")
            values = given.values.setdefault(name, [])
            if option.argument is None:
                if equals:
                    raise Misuse(f"Option {name} does not take an argument")
                continue
            if equals:
                values.append(value)
            elif waiting and (not option.optional or not waiting[0].startswith("-")):
                values.append(waiting.pop(0))
            elif not option.optional:
                raise Misuse(f"Option {name} requires an argument")
        if not unchecked_numbers:
            given.check_numbers()
        return given

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
        from difflib import get_close_matches

        near = get_close_matches(name, self.options, n=1)
        return f"; did you mean --{near[0]}?" if near else ""


def _head(option: Option) -> str:
    short = f"-{option.short}, " if option.short else ""
    if option.argument is None:
        return f"{short}--{option.name}"
    inside = f"{option.kind}: {option.argument}" if option.argument else option.kind
    return f"{short}--{option.name} " + (f"[{inside}]" if option.optional else f"<{inside}>")
