"""All commands of ottla's own are refused and explained alike."""

from __future__ import annotations

from contextlib import suppress

import pytest
from conftest import run_ottla

from ottla.cli.completion import all_places
from ottla.cli.main import COMMANDS

OWN = [place for place in all_places() if place.words[0] in COMMANDS and place.options]


@pytest.mark.parametrize("place", OWN, ids=lambda place: " ".join(place.words))
def test_every_command_has_help_of_one_form_and_names_the_nearest_option(
    place, capsys: pytest.CaptureFixture[str]
) -> None:
    from ottla.cli.main import main

    def run(*arguments: str) -> tuple[int, str, str]:
        try:
            code = main([*place.words, *arguments])
        except SystemExit as ended:
            code = int(ended.code or 0)
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    code, told, _ = run("--help")
    assert code == 0
    assert told.startswith(f"usage: ottla {' '.join(place.words)}")
    assert "\noptions:\n  " in told
    assert all(f"--{option.name}" in told for option in place.options)
    code, out, err = run("--hepl")
    assert (code, out) == (2, "")
    first, second = err.splitlines()
    assert first == "ottla: there is no option --hepl; did you mean --help?"
    assert second.startswith(f"usage: ottla {' '.join(place.words)}")


@pytest.mark.parametrize("noun", sorted({place.words[0] for place in OWN if len(place.words) > 1}))
def test_a_noun_lists_each_of_its_verbs_in_one_line(noun: str, capsys: pytest.CaptureFixture[str]) -> None:
    from ottla.cli.main import main

    with suppress(SystemExit):
        assert main([noun, "--help"]) == 0
    shown = capsys.readouterr().out
    head, _, listed = shown.partition(f"verbs (ottla {noun} VERB --help tells more):\n")
    assert head.startswith(f"usage: ottla {noun} VERB ...\n\n")
    lines = listed.splitlines()
    verbs = [place.words[1] for place in all_places() if place.words[0] == noun and len(place.words) > 1]
    assert sorted(line.split()[0] for line in lines) == sorted(set(verbs))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["topic", "describe"], "ottla: NAME... is missing"),
        (["config", "set", "topic", "t"], "ottla: KEY=VALUE... is missing"),
        (["topic", "list", "we*"], "ottla: `ottla topic list` takes no argument: 'we*' is one too many"),
        (["topic", "list", "--format", "jsn"], "ottla: --format jsn: there is no such choice; did you mean json?"),
        (["topic", "create", "t", "-p", "three"], "ottla: --partitions three: not a whole number, or one too large"),
        (["topic", "create", "t", "--partitions"], "ottla: --partitions needs a value: --partitions N"),
        (["topic", "create", "t", "-p", "--if-not-exists"], "ottla: --partitions needs a value: --partitions N"),
        (["topic", "create", "t", "--if-not-exists=yes"], "ottla: --if-not-exists takes no value, but was given 'yes'"),
        (["topic", "create", "t", "-c", "a=1", "-c", "a=2"], "ottla: a was given more than once"),
        (["start", "--set", "num.partitions=1", "--set", "num.partitions=2"], "ottla: --set num.partitions was given"),
        (["topic", "list", "-format", "json"], "ottla: there is no option -format; did you mean --format?"),
        (["topic", "list", "--boot", "x"], "ottla: there is no option --boot; did you mean --bootstrap-server?"),
        (["log", "dump", "x", "-b", "h:1"], "ottla: there is no option -b"),
        (["topic", "list", "--version"], "ottla: there is no option --version"),
        (["lake", "lod"], "ottla: lake has no verb 'lod': did you mean `ottla lake load`?"),
        (["audit", "chek"], "ottla: audit has no verb 'chek': did you mean `ottla audit check`?"),
        (["lake", "load", "t"], "ottla: --to is missing"),
        (["lake", "load", "t", "--format", "parqet"], "ottla: --format: give one of parquet, delta, iceberg"),
        (["sim", "--seed", "1", "--seeds", "2"], "ottla: give either --seeds N or --seed S"),
        (["sim", "--seed", "1", "--jobs", "99"], "ottla: --jobs 99: 1 to 64 are possible"),
        (["registry", "start", "--port", "70000"], "ottla: --port 70000 is not a port: ports are 0 to 65535"),
        (["cluster", "drain", "--broker", "1", "--timeout", "soon"], "ottla: --timeout: 'soon' is not a duration"),
        (["cluster", "up", "--log-level", "wraning"], "ottla: --log-level wraning: there is no such choice; did"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_first_and_in_two_lines(arguments: list[str], said: str) -> None:
    done = run_ottla(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(said)
    assert len(done.stderr.splitlines()) <= 2


def test_a_short_option_takes_its_value_without_a_blank() -> None:
    assert "there is no option -q" in run_ottla("topic", "list", "-q1").stderr
    assert "--partitions 0" in run_ottla("topic", "create", "t", "-p0").stderr or (
        "at least 1" in run_ottla("topic", "create", "t", "-p0").stderr
    )
