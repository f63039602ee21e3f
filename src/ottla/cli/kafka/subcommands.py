"""Kafka's tools that have subcommands (argparse4j): options before the subcommand's name, and options behind it."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ottla.cli.faults import Misuse
from ottla.cli.options import Given, Parser

_WIDTH, _LEFT = 75, 25


class ChosenSubcommand(NamedTuple):
    """A parsed command line: the options before the name, the name, the options behind it."""

    before: Given
    name: str
    behind: Given


def choose(common: Parser, commands: Mapping[str, Parser], arguments: Sequence[str]) -> ChosenSubcommand:
    """Read a command line; raises Misuse in the words of argparse4j, as far as they help."""
    at = 0
    while at < len(arguments) and arguments[at].startswith("-"):
        name, equals, _ = arguments[at].lstrip("-").partition("=")
        option = common.options.get(name)
        at += 2 if option is not None and option.argument is not None and not equals else 1
    before = common.parse(arguments[:at])
    if at >= len(arguments):
        if "help" in before or "version" in before:
            return ChosenSubcommand(before, "", before)
        raise Misuse("too few arguments")
    name = arguments[at]
    if name not in commands:
        raise Misuse(f"invalid choice: '{name}' (choose from {', '.join(repr(each) for each in commands)})")
    return ChosenSubcommand(before, name, commands[name].parse(arguments[at + 1 :]))


def listed(abouts: Mapping[str, str]) -> str:
    """The subcommands and what each of them does, as argparse4j lists them."""
    lines = ["positional arguments:", f"  {{{','.join(abouts)}}}"]
    for name, about in abouts.items():
        first, *more = textwrap.wrap(about, _WIDTH - _LEFT)
        head = f"    {name}"
        lines += [f"{head:<{_LEFT}}{first}"] if len(head) <= _LEFT - 2 else [head, " " * _LEFT + first]
        lines += [" " * _LEFT + line for line in more]
    return "\n".join(lines) + "\n"


def required(given: Given, name: str) -> str:
    found = given.text(name)
    if found is None:
        raise Misuse(f"argument --{name} is required")
    return found


def required_number(given: Given, name: str) -> int:
    required(given, name)
    found = given.number(name)
    assert found is not None
    return found


def padded(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table as ToolsUtils.prettyPrintTable lays it out: each cell padded, a tab behind it."""
    widths = [max([len(header), *(len(row[at]) for row in rows)]) for at, header in enumerate(headers)]
    lines = [[f"{cell:<{width}}\t" for cell, width in zip(row, widths, strict=True)] for row in (headers, *rows)]
    return "".join("".join(line) + "\n" for line in lines)
