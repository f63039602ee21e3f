"""Parts that ottla's own commands share: verbs, options, tables and JSON, colours on a terminal only."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING, TextIO

from ottla.cli.faults import Misuse
from ottla.cli.options import OURS, Given, Option, Parser, nearest_word
from ottla.client.errors import ClientError
from ottla.config.profiles import DEFAULT_BOOTSTRAP, DEFAULT_REGISTRY, ChosenAddress, bootstrap_servers, registry_url
from ottla.kernel.errors import ApiError
from ottla.kernel.terminal import colours

if TYPE_CHECKING:
    from ottla.client.blocking.admin import Admin

BOOTSTRAP = Option(
    "bootstrap-server",
    f"Brokers to connect to. Default: those of the profile, or {DEFAULT_BOOTSTRAP}.",
    "HOST:PORT",
    short="b",
)
REGISTRY = Option(
    "registry", f"Where the registry is. Default: that of the profile, or {DEFAULT_REGISTRY}.", "URL", also="url"
)
PROFILE = Option("profile", "The profile whose addresses to use; `ottla profile` makes them.", "NAME")
FORMAT = Option("format", "text or json.", "text|json", default="text", choices=("text", "json"))
COMMAND_CONFIG = Option(
    "command-config", "Property file with client options; its bootstrap.servers count where none are given.", "FILE"
)
COMMON = (BOOTSTRAP, PROFILE, COMMAND_CONFIG, FORMAT)
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
        connects: bool = True,
    ) -> None:
        """`words`: how many arguments it takes at the least and at the most.

        `has_json`: whether it can print JSON; `connects`: whether it speaks to a cluster.
        """
        self.usage = usage
        self.about = about
        self._do = do
        self._words = words
        self._has_json = has_json
        common = [*(COMMON[:-1] if connects else ()), replace(FORMAT, hidden=not has_json)]
        self.parser = Parser(about, [*options, *common], words=True, phrases=OURS)

    @property
    def name(self) -> str:
        """`ottla topic list`."""
        return " ".join(takewhile(re.compile(r"[a-z][a-z-]*").fullmatch, self.usage.split()))

    def run(self, arguments: Sequence[str]) -> int:
        """Read the arguments, do the work; misuse is exit code 2."""
        try:
            given = self.parser.parse(arguments)
            if "help" in given:
                sys.stdout.write(self.help())
                return 0
            if wants_json(given) and not self._has_json:
                raise Misuse(f"`{self.name}` has no --format json")
            self._check_words(given.words)
            return self._with_addresses(given)
        except Misuse as fault:
            sys.stdout.flush()
            sys.stderr.write(f"ottla: {fault}\nusage: {self.usage}   (--help tells more)\n")
            return 2

    def _check_words(self, words: Sequence[str]) -> None:
        least, most = self._words
        if len(words) < least:
            wanted = takewhile(
                lambda word: not word.startswith(("-", "[-")), self.usage.split()[self.name.count(" ") + 1 :]
            )
            raise Misuse(f"{' '.join(list(wanted)[len(words) :]) or 'an argument'} is missing")
        if len(words) > most:
            takes = "no argument" if not most else "one argument" if most == 1 else f"at most {most} arguments"
            raise Misuse(f"`{self.name}` takes {takes}: {words[most]!r} is one too many")

    def _with_addresses(self, given: Given) -> int:
        """Do the work. An error of the cluster says which cluster it was."""
        if BOOTSTRAP.name not in self.parser.options or PROFILE.name not in self.parser.options:
            return self._do(given) or 0
        cluster = cluster_of(given)
        given.values[BOOTSTRAP.name] = [cluster.address]
        given.origin = cluster.origin
        if cluster.command_config and COMMAND_CONFIG.name in self.parser.options:
            given.values.setdefault(COMMAND_CONFIG.name, [cluster.command_config])
        try:
            return self._do(given) or 0
        except (ApiError, ClientError) as fault:
            fault.add_note(where_asked(given, str(fault)))
            raise

    def help(self) -> str:
        rows = [
            (_head(option), option.about + (f" Default: {option.default}." if option.default else ""))
            for option in self.parser.options.values()
            if not option.hidden
        ]
        width = max(len(head) for head, _ in rows)
        lines = [f"usage: {self.usage}", "", self.about, "", "options:"]
        return "\n".join(lines + [f"  {head:<{width}}  {about}" for head, about in rows]) + "\n"


def cluster_of(given: Given) -> ChosenAddress:
    """The brokers to connect to, and who said so; Misuse if two did.

    A file of --command-config may name brokers, too. They come behind -b and --profile.
    """
    config = given.text(COMMAND_CONFIG.name) if COMMAND_CONFIG.name in given.parser.options else None
    if config is not None and BOOTSTRAP.name not in given and PROFILE.name not in given:
        from ottla.cli.connect import read_properties  # as below

        servers = read_properties(config).get("bootstrap.servers")
        if servers:
            return ChosenAddress(servers, config)
    return _chosen(given, BOOTSTRAP.name, "-b", bootstrap_servers)


def registry_of(given: Given) -> str:
    """The URL of the registry to ask."""
    chosen = _chosen(given, REGISTRY.name, "--registry", registry_url)
    return registry_address(chosen.address, chosen.origin)


def registry_beside_cluster(given: Given) -> str:
    """The URL of the registry for a command that asks brokers too: --registry may go with --profile there."""
    address = given.text(REGISTRY.name)
    chosen = ChosenAddress(address, "--registry") if address else registry_url(os.environ, given.text(PROFILE.name))
    return registry_address(chosen.address, chosen.origin)


def registry_address(address: str, origin: str) -> str:
    """The address without a slash at its end; Misuse if it is not that of an HTTP server."""
    if not re.fullmatch(r"https?://[^/\s]\S*", address):
        raise Misuse(f"{address!r} ({origin}) is not the URL of a registry: write http://HOST:PORT")
    return address.rstrip("/")


def _chosen(
    given: Given, name: str, flag: str, otherwise: Callable[[Mapping[str, str], str | None], ChosenAddress]
) -> ChosenAddress:
    address, profile = given.text(name), given.text(PROFILE.name)
    if address is not None and profile is not None:
        raise Misuse(f"give {flag} or --profile, not both")
    if address is not None:
        return ChosenAddress(address, flag)
    if profile == "":
        raise Misuse("--profile has no name; `ottla profile list` shows the profiles")
    return otherwise(os.environ, profile)


def where_asked(given: Given, text: str) -> str:
    """` (cluster localhost:9092, the default)`, unless the text names the address already."""
    address = given.need(BOOTSTRAP.name)
    origin = "" if given.origin in ("", "-b") else given.origin
    if address in text:
        return f" ({address} is {'' if origin == 'the default' else 'from '}{origin})" if origin else ""
    return f" (cluster {address}{f', {origin}' if origin else ''})"


def complain(given: Given, fault: Exception) -> int:
    """Print a failure of one of several things, with the cluster; return 1 to count it."""
    text = fault.message if isinstance(fault, ApiError) else str(fault)
    sys.stderr.write(f"ottla: {text}{where_asked(given, text)}\n")
    return 1


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
        first_lines = {verb: command.about.partition("\n")[0] for verb, command in verbs.items()}
        out.write("".join(f"  {verb:<{width}}  {about}\n" for verb, about in first_lines.items()))
        return 0 if arguments else 2
    command = verbs.get(arguments[0])
    if command is None and arguments[0].startswith("-"):
        sys.stderr.write(f"ottla: {name} needs a verb before its options: there are {', '.join(verbs)}\n")
        return 2
    if command is None:
        near = nearest_word(arguments[0], list(verbs))
        hint = f"did you mean `ottla {name} {near}`?" if near else f"there are {', '.join(verbs)}"
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
    from ottla.cli.connect import admin_from  # a broker's command line needs no client, and would load one

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
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise Misuse(f"{text!r} is not KEY=VALUE")
        if key in found:
            raise Misuse(f"{key} was given more than once: {found[key]!r} and {value!r}")
        found[key] = value
    return found
