"""Completion by a shell, from what the commands declare."""

from __future__ import annotations

import subprocess

import pytest
from conftest import run_ottla

from ottla.cli.completion import all_places, bash_script, fish_script
from ottla.cli.main import COMMANDS, KAFKA_TOOLS

PLACES = list(all_places())


def _completed(*words: str) -> set[str]:
    """The words that bash offers for the last one of a line."""
    line = " ".join(f"'{word}'" for word in words)
    script = f"""{bash_script(PLACES, zsh=False)}
COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _ottla; printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60, check=True)
    return set(done.stdout.split())


def test_every_command_and_tool_is_completed() -> None:
    assert _completed("ottla", "") == {*COMMANDS, *KAFKA_TOOLS}
    assert {place.words[0] for place in PLACES} == {*COMMANDS, *KAFKA_TOOLS}


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["top"], {"topic"}),
        (["topic", "de"], {"describe", "delete"}),
        (["topic", "create", "x", "--repl"], {"--replicas"}),
        (["topic", "list", "--format", ""], {"text", "json"}),
        (["cluster", "u"], {"up"}),
        (["cluster", "up", "--brok"], {"--brokers"}),
        (["start", "--log-level", "w"], {"warning"}),
        (["lake", "load", "--format", "d"], {"delta"}),
        (["lake", "load", "--dead"], {"--dead-letter"}),
        (["audit", "check", "--tol"], {"--tolerance"}),
        (["kafka-topics", "--boot"], {"--bootstrap-server"}),
        (["completion", "z"], {"zsh"}),
        (["topic", "list", "-b", ""], set()),
    ],
)
def test_bash_offers_what_may_stand_there(words: list[str], offered: set[str]) -> None:
    assert _completed("ottla", *words) == offered


def test_every_option_is_in_the_script_of_fish() -> None:
    script = fish_script(PLACES)
    for place in PLACES:
        assert all(f"'__ottla_at {' '.join(place.words)}' -l {each.name} " in script for each in place.options)


def test_a_shell_that_nobody_has_is_refused_with_the_nearest() -> None:
    assert run_ottla("completion", "bash").stdout.startswith("# Completion of ottla for bash.")
    assert "bashcompinit" in run_ottla("completion", "zsh").stdout
    assert "did you mean bash?" in run_ottla("completion", "bsh").stderr
    assert "bash|zsh|fish is missing" in run_ottla("completion").stderr
