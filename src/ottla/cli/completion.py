"""`ottla completion bash|zsh|fish`: a script by which a shell completes commands, verbs, options and choices.

It is made from the declarations of the commands, so it lacks none and invents none.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module

from ottla.cli.arguments import about_of, options_of, verbs_of
from ottla.cli.command import Command
from ottla.cli.faults import Misuse
from ottla.cli.main import COMMANDS, KAFKA_TOOLS
from ottla.cli.options import Given, Option, Parser, nearest_word

SHELLS = ("bash", "zsh", "fish")


@dataclass(frozen=True, slots=True)
class Completed:
    """One option as a shell completes it."""

    name: str
    short: str | None
    about: str
    takes_value: bool
    choices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CompletedCommand:
    """A command, or a verb of one: the words in front of its options, and these."""

    words: tuple[str, ...]
    about: str
    options: tuple[Completed, ...]
    choices: tuple[str, ...] = ()
    """The arguments that it may take, if they are known."""


def command(arguments: Sequence[str]) -> int:
    return COMMAND.run(arguments)


def _complete(given: Given) -> int:
    shell = given.words[0]
    if shell not in SHELLS:
        near = nearest_word(shell, SHELLS)
        instead = f"did you mean {near}?" if near else f"there are {', '.join(SHELLS)}"
        raise Misuse(f"there is no completion for {shell!r}: {instead}")
    places = list(all_places())
    sys.stdout.write(fish_script(places) if shell == "fish" else bash_script(places, zsh=shell == "zsh"))
    return 0


def all_places() -> Iterator[CompletedCommand]:
    """Every command and verb with its options, as they are declared."""
    for name, (where, about) in COMMANDS.items():
        module = import_module(where.partition(":")[0])
        verbs: Mapping[str, Command] | None = getattr(module, "VERBS", None)
        verbs = module.verbs() if hasattr(module, "verbs") else verbs
        if hasattr(module, "_parser"):
            yield from _of_argparse(name, about, module._parser())
        elif verbs is not None:
            yield CompletedCommand((name,), about, ())
            yield from (
                CompletedCommand((name, verb), each.about, _options(each.parser)) for verb, each in verbs.items()
            )
        else:
            declared = getattr(module, "COMMAND", None)
            options = () if declared is None else _options(declared.parser)
            yield CompletedCommand((name,), about, options, SHELLS if name == "completion" else ())
    for name, (where, about) in KAFKA_TOOLS.items():
        parser = getattr(import_module(where.partition(":")[0]), "PARSER", None)
        yield CompletedCommand((name,), about, () if parser is None else _options(parser))


def _options(parser: Parser) -> tuple[Completed, ...]:
    return tuple(_completed(option) for option in parser.options.values() if not option.hidden)


def _completed(option: Option) -> Completed:
    return Completed(option.name, option.short, option.about, option.argument is not None, option.choices)


def _of_argparse(name: str, about: str, parser: argparse.ArgumentParser) -> Iterator[CompletedCommand]:
    yield CompletedCommand((name,), about, ())
    for verb, each in verbs_of(parser).items():
        options = [
            Completed(
                next(text[2:] for text in action.option_strings if text.startswith("--")),
                next((text[1:] for text in action.option_strings if not text.startswith("--")), None),
                about_of(each, action),
                action.nargs != 0,
                tuple(map(str, action.choices or ())),
            )
            for action in options_of(each)
        ]
        yield CompletedCommand((name, verb), each.description or "", tuple(options))


def _next_words(places: Sequence[CompletedCommand], words: tuple[str, ...]) -> list[CompletedCommand]:
    """The places one word below."""
    return [each for each in places if len(each.words) == len(words) + 1 and each.words[:-1] == words]


# --- bash and zsh ---

_BASH = """\
# Completion of ottla for {shell}.  {how}
{head}_ottla() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} words="" place
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W {commands} -- "$cur"))
        return
    fi
    case "${{COMP_WORDS[1]}}" in
        {nouns})
            place="${{COMP_WORDS[1]}} ${{COMP_WORDS[2]}}"
            [ "$COMP_CWORD" -eq 2 ] && place="${{COMP_WORDS[1]}}" ;;
        *) place="${{COMP_WORDS[1]}}" ;;
    esac
    case "$place $prev" in
{values}
    esac
    case "$place" in
{places}
    esac
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
}}
complete -o bashdefault -o default -F _ottla ottla
"""


def bash_script(places: Sequence[CompletedCommand], *, zsh: bool) -> str:
    """The script for bash; zsh takes it too, through bashcompinit."""
    shell = "zsh" if zsh else "bash"
    nouns = [each.words[0] for each in places if len(each.words) == 1 and _next_words(places, each.words)]
    values, lines = [], []
    for place in places:
        name = " ".join(place.words)
        below = [each.words[-1] for each in _next_words(places, place.words)]
        words = [*below, *place.choices, *(f"--{each.name}" for each in place.options)]
        lines.append(f"        {shlex.quote(name)}) words={shlex.quote(' '.join(words))} ;;")
        for option in place.options:
            if option.takes_value:
                flags = [f"--{option.name}", *([f"-{option.short}"] if option.short else [])]
                pattern = "|".join(shlex.quote(f"{name} {flag}") for flag in flags)
                known = shlex.quote(" ".join(option.choices))
                found = f'COMPREPLY=($(compgen -W {known} -- "$cur")); ' if option.choices else ""
                values.append(f"        {pattern}) {found}return ;;")
    return _BASH.format(
        shell=shell,
        how=f'Put  eval "$(ottla completion {shell})"  into ~/.{shell}rc.',
        head="autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n" if zsh else "",
        commands=shlex.quote(" ".join(each.words[0] for each in _next_words(places, ()))),
        nouns="|".join(nouns),
        values="\n".join(values),
        places="\n".join(lines),
    )


# --- fish ---


def fish_script(places: Sequence[CompletedCommand]) -> str:
    """The script for fish, with what each command and option is for."""
    lines = [
        "# Completion of ottla for fish.  ottla completion fish > ~/.config/fish/completions/ottla.fish",
        "function __ottla_at",
        "    set -l words (commandline -opc)[2..-1]",
        "    set -l count (count $argv)",
        '    test (count $words) -ge $count; and test "$words[1..$count]" = "$argv"',
        "end",
        "complete -c ottla -e",
    ]
    for place in places:
        before = " ".join(place.words[:-1])
        above = f"__ottla_at {before}; and test (count (commandline -opc)) -eq 2" if before else "__fish_use_subcommand"
        lines.append(f"complete -c ottla -f -n {shlex.quote(above)} -a {place.words[-1]} -d {_fish(place.about)}")
        here = shlex.quote(f"__ottla_at {' '.join(place.words)}")
        if place.choices:
            lines.append(f"complete -c ottla -f -n {here} -a {shlex.quote(' '.join(place.choices))}")
        for option in place.options:
            flags = f"-l {option.name}" + (f" -s {option.short}" if option.short else "")
            known = f" -x -a {shlex.quote(' '.join(option.choices))}"
            value = known if option.choices else " -r" if option.takes_value else ""
            lines.append(f"complete -c ottla -n {here} {flags}{value} -d {_fish(option.about)}")
    return "\n".join(lines) + "\n"


def _fish(text: str) -> str:
    """A text in fish's quotes."""
    first = text.partition("\n")[0].replace("\\", "\\\\").replace("'", "\\'")
    return f"'{first}'"


COMMAND = Command(
    "ottla completion bash|zsh|fish",
    "Print a script by which a shell completes commands, verbs and options.\n\n"
    'bash, in ~/.bashrc:  eval "$(ottla completion bash)"\n'
    'zsh, in ~/.zshrc:    eval "$(ottla completion zsh)"\n'
    "fish:                ottla completion fish > ~/.config/fish/completions/ottla.fish",
    _complete,
    words=(1, 1),
    has_json=False,
    connects=False,
)
