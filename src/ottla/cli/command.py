"""Parts that ottla's own commands share: verbs, options, tables and JSON, colours on a terminal only."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TextIO

from ottla.cli.connect import DEFAULT_BOOTSTRAP, admin_from
from ottla.cli.faults import Misuse
from ottla.cli.options import Given, Option, Parser
from ottla.kernel.terminal import colours

if TYPE_CHECKING:
    from ottla.client.blocking.admin import Admin

COMMON = (
    Option("bootstrap-server", "Brokers to connect to.", "HOST:PORT", default=DEFAULT_BOOTSTRAP, short="b"),
    Option("command-config", "Property file with client options.", "FILE"),
    Option("format", "text or json.", "text|json", default="text"),
)
_ESCAPED = re.compile(r"\\(?:[\\'\"abfnrtv]|[0-3]?[0-7]{1,2}|x[0-9a-fA-F]{2}|u(?![dD][89a-fA-F])[0-9a-fA-F]{4})")
_BOLD, _DIM, _GREEN, _RED, _END = "\x1b[1m", "\x1b[2m", "\x1b[32m", "\x1b[31m", "\x1b[0m"

Verb = Callable[[Given], int | None]


class Command:
    """One command, or one verb of a noun: its usage line, options and what it does."""

    def __init__(
        self,
        usage: str,
        about: str,
        do: Verb,
        options: Sequence[Option] = (),
        *,
        words: tuple[int, int] = (0, 0),
        has_json: bool = True,
    ) -> None:
        """`words`: how many arguments it takes at the least and at the most; `has_json`: whether it can print JSON."""
        self.usage = usage
        self.about = about
        self._do = do
        self._words = words
        self._has_json = has_json
        self._parser = Parser(about, [*options, *COMMON], words=True)

    def run(self, arguments: Sequence[str]) -> int:
        """Read the arguments, do the work; misuse is exit code 2."""
        try:
            given = self._parser.parse(arguments)
            if "help" in given:
                sys.stdout.write(self.help())
                return 0
            if given.text("format") not in ("text", "json"):
                raise Misuse(f"--format is text or json, not {given.text('format')}")
            if wants_json(given) and not self._has_json:
                raise Misuse(f"`{' '.join(self.usage.split()[:3])}` has no --format json")
            least, most = self._words
            if not least <= len(given.words) <= most:
                raise Misuse(
                    "something is missing" if len(given.words) < least else f"not understood: {given.words[most]}"
                )
            return self._do(given) or 0
        except Misuse as fault:
            sys.stdout.flush()
            sys.stderr.write(f"ottla: {fault}\nusage: {self.usage}\n")
            return 2

    def help(self) -> str:
        rows = [
            (_head(option), option.about + (f" Default: {option.default}." if option.default else ""))
            for option in self._parser.options.values()
            if option.name != "version" and (self._has_json or option.name != "format")
        ]
        width = max(len(head) for head, _ in rows)
        lines = [f"usage: {self.usage}", "", self.about, "", "options:"]
        return "\n".join(lines + [f"  {head:<{width}}  {about}" for head, about in rows]) + "\n"


def _head(option: Option) -> str:
    head = f"-{option.short}, --{option.name}" if option.short else f"    --{option.name}"
    if option.also is not None:
        head += f", --{option.also}"
    return f"{head} {option.argument}" if option.argument else head


def noun(name: str, verbs: Mapping[str, Command], arguments: Sequence[str]) -> int:
    """Run the verb that comes first, or list the verbs; options that all verbs have may come before it."""
    arguments = _verb_first(arguments)
    if not arguments or arguments[0] in ("-h", "--help"):
        out = sys.stdout if arguments else sys.stderr
        width = max(map(len, verbs))
        out.write(f"usage: ottla {name} VERB ...\n\nverbs (ottla {name} VERB --help tells more):\n")
        out.write("".join(f"  {verb:<{width}}  {command.about}\n" for verb, command in verbs.items()))
        return 0 if arguments else 2
    command = verbs.get(arguments[0])
    if command is None and arguments[0].startswith("-"):
        sys.stderr.write(f"ottla: {name} needs a verb before its options: there are {', '.join(verbs)}\n")
        return 2
    if command is None:
        from difflib import get_close_matches

        near = get_close_matches(arguments[0], verbs, n=1)
        hint = f"did you mean `ottla {name} {near[0]}`?" if near else f"there are {', '.join(verbs)}"
        sys.stderr.write(f"ottla: {name} has no verb {arguments[0]!r}: {hint}\n")
        return 2
    return command.run(arguments[1:])


def _verb_first(arguments: Sequence[str]) -> list[str]:
    names = {f"--{option.name}" for option in COMMON} | {f"-{option.short}" for option in COMMON if option.short}
    before, behind = [], list(arguments)
    while behind and behind[0].partition("=")[0] in names:
        count = 1 if "=" in behind[0] else 2
        before += behind[:count]
        del behind[:count]
    return [*behind[:1], *before, *behind[1:]] if behind else before


def connected(given: Given) -> Admin:
    """An Admin for the addresses on the command line."""
    return admin_from(given.need("bootstrap-server"), given.text("command-config"))


def wants_json(given: Given) -> bool:
    return given.text("format") == "json"


def print_json(content: object) -> None:
    sys.stdout.write(json.dumps(content, indent=None if not sys.stdout.isatty() else 2) + "\n")


def print_table(titles: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Columns aligned, numbers to the right; titles bold on a terminal."""
    cells = [[_cell(value) for value in row] for row in rows]
    right = [bool(rows) and all(isinstance(row[index], int | None) for row in rows) for index in range(len(titles))]
    widths = [max([len(title), *(len(row[index]) for row in cells)]) for index, title in enumerate(titles)]

    def line(texts: Sequence[str]) -> str:
        parts = [
            f"{text:>{width}}" if to_right else f"{text:<{width}}"
            for text, width, to_right in zip(texts, widths, right, strict=True)
        ]
        return "  ".join(parts).rstrip()

    sys.stdout.write(paint(line(titles), _BOLD) + "\n")
    sys.stdout.write("".join(line(row) + "\n" for row in cells))


def _cell(value: object) -> str:
    return "-" if value is None else str(value)


def paint(text: str, colour: str, out: TextIO | None = None) -> str:
    return f"{colour}{text}{_END}" if colours(out or sys.stdout) else text


def good(text: str) -> str:
    return paint(text, _GREEN)


def bad(text: str) -> str:
    return paint(text, _RED)


def dim(text: str) -> str:
    return paint(text, _DIM)


def counted(number: int, noun: str) -> str:
    """`1 record`, `2 records`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def unescaped(text: str) -> str:
    r"""Text with `\n`, `\t`, `\0`, `\x41` and `\u2192` turned into the characters that they stand for."""
    return _ESCAPED.sub(lambda found: found[0].encode("ascii").decode("unicode_escape"), text)


def pairs(texts: Sequence[str]) -> dict[str, str]:
    """KEY=VALUE words."""
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise Misuse(f"{text!r} is not KEY=VALUE")
        found[key] = value
    return found
