"""Refusals of `ottla.lake.load` speak of its options, those of the command line of flags."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ottla import lake
from ottla.lake.commands.load import command
from ottla.lake.options import OPTIONS, in_python


@pytest.mark.parametrize(
    ("sentence", "wanted"),
    [
        ("Such records go to a topic of yours with --dead-letter TOPIC", "dead_letter=TOPIC"),
        ("--accept-loss skips them", "accept_loss=True skips them"),
        ("use --no-audit", "use audit=False"),
        ("--key needs a table: --format delta or iceberg", "key needs a table: format delta or iceberg"),
        ("--from: t-0 ends at offset 3", "beginning: t-0 ends"),
        ("was made with --where NAME = 'a'", "with where NAME = 'a'"),
        ("or another --to", "or another to"),
        ("the option --fields-of of another program", "--fields-of of"),
    ],
)
def test_a_flag_becomes_the_option_of_python(sentence: str, wanted: str):
    assert wanted in in_python(sentence)


def test_no_flag_of_a_declared_option_is_left_in_a_sentence_for_python():
    flags = ", ".join(f"{option.spelt} {option.metavar}".strip() for option in OPTIONS)
    assert "--" not in in_python(flags)


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"key": "id"}, "key needs a table that can be changed: format delta or iceberg", "--key needs a table"),
    ({"values": "avro"}, "values avro needs registry=URL, or schema=FILE", "--values avro needs --registry URL"),
    ({"flatten_separator": "__"}, "flatten_separator __ has an effect only with flatten=True", "only with --flatten"),
]


@pytest.mark.parametrize(("options", "in_python", "on_the_command_line"), REFUSED)
def test_a_refusal_names_options_as_its_caller_gives_them(
    options: dict[str, str],
    in_python: str,
    on_the_command_line: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
):
    with pytest.raises(lake.LakeRefused) as refused:
        lake.load("t", to=tmp_path, **options)  # type: ignore[arg-type]
    assert in_python in str(refused.value) and "--" not in str(refused.value)
    flags = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value)]
    assert command(["load", "t", "--to", str(tmp_path), *flags]) == 1
    assert on_the_command_line in capsys.readouterr().err
