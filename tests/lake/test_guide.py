"""The unit and the job that the guide shows, read as their owners do; their commands by the program itself."""

import configparser
import re
import shlex
from pathlib import Path

import pytest
import yaml

from ottla.lake.command import _parser

GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "guide" / "lake.md").read_text()
SHOWN = dict(re.findall(r"```(ini|yaml)\n(.*?)```", GUIDE, re.S))


def load_options(words: list[str]) -> object:
    assert words[0].endswith("ottla") and words[1] == "lake"
    return _parser().parse_args(words[2:])


def test_the_unit_runs_a_load_that_the_program_understands() -> None:
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string(SHOWN["ini"])
    options = load_options(shlex.split(unit["Service"]["ExecStart"]))
    assert (options.pattern, options.every, options.dead_letter) == (r"shop\..*", "1m", "lake.bad")


def test_the_job_runs_a_load_that_the_program_understands() -> None:
    job = yaml.safe_load(SHOWN["yaml"])
    assert (job["kind"], job["spec"]["concurrencyPolicy"]) == ("CronJob", "Forbid")
    (container,) = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    options = load_options(container["args"])
    assert (options.pattern, options.to, options.bootstrap_server) == (r"shop\..*", "s3://bucket/lake", "kafka:9092")


@pytest.mark.parametrize("line", re.findall(r"^ottla lake load [^\n#]*", GUIDE, re.M))
def test_every_load_that_the_guide_shows_is_understood(line: str) -> None:
    load_options(shlex.split(line))
