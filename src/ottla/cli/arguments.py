"""Declarations of argparse, refused and explained in the words of ottla's other commands.

For commands that need argparse's groups and types. `-b` brings `--profile` and `--command-config` here too.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from itertools import takewhile
from typing import Any, NoReturn

from ottla.cli.connect import client_settings, read_properties
from ottla.cli.faults import BadInput, Misuse
from ottla.cli.options import nearest_word
from ottla.client.security import PLAINTEXT, Security
from ottla.config.profiles import ChosenAddress, ProfileError, bootstrap_servers

_BOOTSTRAP, _PROFILE, _CONFIG = "--bootstrap-server", "--profile", "--command-config"
_CHOICE = re.compile(r"argument (.+?): invalid choice: (.+?) \(choose from .*\)", re.DOTALL)
_VALUE = re.compile(r"argument (.+?): expected (?:one|at least one) argument")
_MISSING = re.compile(r"the following arguments are required: (.*)")
_ONE_OF = re.compile(r"one of the arguments (.*) is required")
_OTHER = re.compile(r"argument (.+?): (.*)", re.DOTALL)


class Arguments(argparse.ArgumentParser):
    """A parser whose help and refusals look like those of `command.Command`; its verbs have parsers of this class."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **kwargs})
        self._asks_always = False

    def add_argument(self, *args: Any, **kwargs: Any) -> argparse.Action:
        """`-b` brings `--profile` and `--command-config`.

        Where it has a default, that is the profile's. Without one, a command that names no brokers asks none, or knows
        them itself.
        """
        if _BOOTSTRAP not in args:
            return super().add_argument(*args, **kwargs)
        if kwargs.get("default") is not None:
            self._asks_always = True
            about = "brokers to connect to; default: those of the profile, or localhost:9092"
            kwargs = {**kwargs, "default": None, "help": about}
        made = super().add_argument(*args, **kwargs)
        super().add_argument(_PROFILE, metavar="NAME", help="the profile whose brokers to use, instead of -b")
        super().add_argument(
            _CONFIG, metavar="FILE",
            help="property file with client options, such as security.protocol; its bootstrap.servers count where none "
            "are given",
        )  # fmt: skip
        return made

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Refuse here what nobody knows: the parser of a verb has the nearest names."""
        if self._verbs() is None:
            for word in takewhile(lambda each: each != "--", args or ()):
                if word.startswith("--") and word.partition("=")[0] not in self._option_string_actions:
                    self.error(f"unrecognized arguments: {word}")
        found, unknown = super().parse_known_args(args, namespace)
        if unknown and self._verbs() is None:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        if _PROFILE in self._option_string_actions:
            try:
                self._fill_address(found)
            except (ProfileError, Misuse, BadInput) as fault:
                self.error(str(fault))
        return found, unknown

    def _fill_address(self, found: argparse.Namespace) -> None:
        """Put the brokers where -b stands, and beside them the `security` by which to speak to them."""
        if found.bootstrap_server is not None and found.profile is not None:
            self.error("give -b or --profile, not both")
        config = read_properties(found.command_config) if found.command_config else {}
        if found.bootstrap_server is None and found.profile is None and config.get("bootstrap.servers"):
            found.bootstrap_server = config["bootstrap.servers"]
        elif found.bootstrap_server is None and (self._asks_always or found.profile is not None):
            chosen = bootstrap_servers(os.environ, found.profile)
            found.bootstrap_server = chosen.address
            found.security = security_beside(chosen)
        if found.command_config or "security" not in found:
            found.security = client_settings(config).security

    def error(self, message: str) -> NoReturn:
        """End with exit code 2: what is wrong, and the usage, in two lines."""
        sys.stdout.flush()
        sys.stderr.write(f"ottla: {self._plain(message)}\n{self.format_usage().rstrip()}   (--help tells more)\n")
        sys.exit(2)

    def format_usage(self) -> str:
        """One line: arguments and options that must be given, and that there are more."""
        if self._verbs() is not None:
            return f"usage: {self.prog} VERB ...\n"
        needed = [_usage(each) for each in self._actions if not each.option_strings]
        needed += [_usage(each) for each in self._actions if each.option_strings and each.required]
        return f"usage: {' '.join([self.prog, *needed])} [OPTIONS]\n"

    def format_help(self) -> str:
        """The usage, what it is for, and every option."""
        lines = [self.format_usage(), self.description or ""]
        if (verbs := self._verbs()) is not None:
            width = max(map(len, verbs.choices or ()))
            lines += ["", f"verbs ({self.prog} VERB --help tells more):"]
            lines += [f"  {each.dest:<{width}}  {each.help}" for each in verbs._choices_actions]
            return "\n".join(lines) + "\n"
        for group in self._action_groups:
            rows = [
                (_head(each), about_of(self, each)) for each in group._group_actions if each.help != argparse.SUPPRESS
            ]
            width = max((len(head) for head, _ in rows), default=0)
            title = "arguments" if group.title == "positional arguments" else group.title
            lines += (
                ["", f"{title}:", *(f"  {head:<{width}}  {about}".rstrip() for head, about in rows)] if rows else []
            )
        return "\n".join(lines) + "\n"

    def _verbs(self) -> Any:
        return next((each for each in self._actions if isinstance(each, argparse._SubParsersAction)), None)

    def _plain(self, message: str) -> str:
        """argparse's message in our words, with the nearest name."""
        if message.startswith("unrecognized arguments: "):
            word = message.split()[2]
            if not word.startswith("-"):
                return f"{word!r} is one argument too many"
            typed = word.partition("=")[0]
            near = nearest_word(
                typed.lstrip("-"), [text[2:] for text in self._option_string_actions if text[:2] == "--"]
            )
            return f"there is no option {typed}" + (f"; did you mean --{near}?" if near else "")
        if found := _CHOICE.fullmatch(message):
            return self._no_choice(found[1], found[2].strip("'\""))
        if found := _VALUE.fullmatch(message):
            return f"{_long(found[1])} needs a value"
        if found := _MISSING.fullmatch(message):
            return f"{'a verb' if found[1] == 'verb' else found[1]} is missing"
        if found := _ONE_OF.fullmatch(message):
            return f"give one of {', '.join(found[1].split())}"
        found = _OTHER.fullmatch(message)
        return message if found is None else f"{_long(found[1])}: {found[2]}"

    def _no_choice(self, name: str, given: str) -> str:
        if name == "verb" and (verbs := self._verbs()) is not None:
            near = nearest_word(given, list(verbs.choices))
            hint = f"did you mean `{self.prog} {near}`?" if near else f"there are {', '.join(verbs.choices)}"
            return f"{self.prog.rpartition(' ')[2]} has no verb {given!r}: {hint}"
        choices = [str(each) for each in self._option_string_actions[_long(name)].choices or ()]
        near = nearest_word(given, choices)
        return f"{_long(name)} {given}: there is no such choice; " + (
            f"did you mean {near}?" if near else f"write {', '.join(choices)}"
        )


def security_beside(chosen: ChosenAddress) -> Security:
    """The security in the client options that go with an address."""
    config = chosen.command_config
    return client_settings(read_properties(config)).security if config else PLAINTEXT


def options_of(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """The options that the help names."""
    return [each for each in parser._actions if each.option_strings and each.help != argparse.SUPPRESS]


def verbs_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The parsers of the verbs, by name."""
    found = next((each for each in parser._actions if isinstance(each, argparse._SubParsersAction)), None)
    return {} if found is None else dict(found.choices)


def about_of(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    """An option's description, with its default put in."""
    return argparse.HelpFormatter(parser.prog)._expand_help(action) if action.help else ""


def _long(names: str) -> str:
    """`--format` of `-f/--format`."""
    return names.rpartition("/")[2]


def _usage(action: argparse.Action) -> str:
    value = str(action.metavar or action.dest)
    if action.option_strings:
        return f"{action.option_strings[-1]} {value}"
    return {"*": f"[{value}...]", "+": f"{value}...", "?": f"[{value}]"}.get(str(action.nargs), value)


def _head(action: argparse.Action) -> str:
    if not action.option_strings:
        return _usage(action)
    short = next((text for text in action.option_strings if not text.startswith("--")), None)
    names = [text for text in action.option_strings if text.startswith("--")]
    head = (f"{short}, " if short else "    ") + ", ".join(names)
    value = "|".join(map(str, action.choices)) if action.choices and action.metavar is None else action.metavar
    return head if action.nargs == 0 else f"{head} {value or action.dest.upper()}"
