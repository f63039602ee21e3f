"""Checks the guide's systemd unit and Kubernetes job with their own tools, and their commands with the program."""

import configparser
import re
import shlex
from pathlib import Path

import pytest
import yaml

from ottla.kernel.ids import TopicPartition
from ottla.lake.commands.load import _parser
from ottla.lake.notes.plans import Commit, RangeCount
from ottla.lake.reports.counts import audit_lines
from ottla.rows.plan import OffsetRange

ROOT = Path(__file__).resolve().parents[2]
GUIDE = "".join((ROOT / "docs" / "guide" / page).read_text() for page in ("lake.md", "lake-columns.md"))
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


def test_the_readme_shows_the_table_that_a_load_prints() -> None:
    counts = [RangeCount(OffsetRange("hello", 0, 0, 4), records=4, rows=4)]
    printed = audit_lines(counts, Commit(rows={TopicPartition("hello", 0): 4}))
    assert "\n".join(printed) in (ROOT / "README.md").read_text()


def test_no_lake_of_the_guide_is_given_values_of_two_kinds() -> None:
    kinds: dict[str, set[str]] = {}
    for line in re.findall(r"^ottla lake load [^\n#]*", GUIDE, re.M):
        options = _parser().parse_args(shlex.split(line)[2:])
        kinds.setdefault(options.to, set()).add("json" if options.json else options.values or "binary")
    lakes = {to: found for to, found in kinds.items() if to in ("raw", "lake")}
    assert lakes == {"raw": {"binary"}, "lake": {"json"}}
