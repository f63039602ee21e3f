"""`ottla sizing`: the brokers that a load needs."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path

import pytest

from ottla.cli.main import main
from ottla.cli.sizing_model import CONSUMED_US, FOLLOWED_US, PRODUCED_US, Offered, needed

ROOT = Path(__file__).resolve().parents[2]
LINKEDIN = ("--messages-per-day", "10000000000", "--peak", "172000", "--readers", "5.5")
"""Goodhope and others, Building LinkedIn's Real-time Activity Data Pipeline (2012)."""


def a_load(**changes: object) -> Offered:
    given = {
        "messages_per_day": 86_400_000, "message_bytes": 200, "peak_per_s": Fraction(1_000_000), "readers": Fraction(0),
        "batch_records": 50, "replicas": 1, "retention_s": 86_400, "compression": Fraction(1), "busy": Fraction(1),
    }  # fmt: skip
    return Offered(**(given | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(("batch", "cores"), [*PRODUCED_US, (100_000, PRODUCED_US[-1][1])])
def test_a_million_records_a_second_cost_what_was_measured(batch, cores):
    assert needed(a_load(batch_records=batch)).cores == pytest.approx(cores)


def test_between_two_measured_batches_the_cost_lies_between_theirs():
    costs = [needed(a_load(batch_records=batch)).cores for batch in (1, 2, 10, 50, 51, 500, 5000)]
    assert costs == sorted(costs, reverse=True)
    assert needed(a_load(batch_records=2)).cores == pytest.approx(9.7 / 2 + 0.27 / 2, rel=0.01)


def test_bytes_beyond_the_measured_size_cost_in_proportion_and_fewer_are_not_cheaper():
    base = needed(a_load()).cores
    assert needed(a_load(message_bytes=400)).cores == pytest.approx(base + PRODUCED_US[-1][1])
    assert needed(a_load(message_bytes=20)).cores == pytest.approx(base)
    assert needed(a_load(message_bytes=400, compression=Fraction(2))).cores == pytest.approx(base)


def test_replicas_and_readers_are_counted_in_every_figure():
    found = needed(a_load(replicas=3, readers=Fraction(2)))
    assert found.cores == pytest.approx(0.462 + 2 * FOLLOWED_US[0][1] + 2 * CONSUMED_US)
    assert found.in_bytes_per_s == 3 * 200_000_000
    assert found.out_bytes_per_s == (2 + 2) * 200_000_000
    assert found.disk_bytes == 3 * 86_400_000 * 200
    assert found.wants == {"processor": 2, "replicas": 3}


def test_the_limit_that_asks_for_most_brokers_decides():
    found = needed(a_load(disk_bytes=1_000_000_000, link_bits_per_s=10_000_000_000))
    assert found.wants == {"processor": 1, "replicas": 1, "disk": 18, "network": 1}
    assert (found.brokers, found.decided_by) == (18, "disk")
    assert needed(a_load(link_bits_per_s=1_000_000_000)).wants["network"] == 2


def test_linkedin_of_2012_is_a_load_for_disks_and_not_for_processors(capsys):
    assert main(["sizing", *LINKEDIN, "--disk", "6TB", "--link", "1000", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["cores"] < 1
    assert found["wants"] == {"processor": 1, "replicas": 3, "disk": 7, "network": 5}
    assert (found["brokers"], found["decided_by"]) == (7, "disk")
    assert main(["sizing", *LINKEDIN]) == 0
    said = capsys.readouterr()
    assert "3 brokers (processor 1, replicas 3): replicas decides" in said.out
    assert "--disk is a broker's space" in said.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--peak", "5"], "--messages-per-day is missing"),
        (["--messages-per-day", "864000", "--peak", "5"], "10 a second on average already"),
        (["--messages-per-day", "0"], "at least 1"),
        (["--messages-per-day", "1", "--busy", "1.5"], "above 0, and 1 at most"),
        (["--messages-per-day", "1", "--compression", "0.5"], "1 or more times smaller"),
        (["--messages-per-day", "1", "--readers", "many"], "write a number"),
        (["--messages-per-day", "1", "--readers", "-1"], "cannot be below 0"),
        (["--messages-per-day", "1", "--batch", "0"], "at least 1"),
        (["--messages-per-day", "1", "--size", "0"], "at least a byte"),
    ],
)
def test_a_load_that_cannot_be_is_refused_by_name(options, said, capsys):
    assert main(["sizing", *options]) == 2
    assert said in capsys.readouterr().err


def test_the_costs_are_those_of_the_race():
    """The page is written by the race; where a broker has become much cheaper or dearer, the costs here are renewed."""
    page = (ROOT / "docs/reference/performance.md").read_text("utf-8")

    def cost(line: str, title: str) -> float:
        found = re.search(rf"^\| {re.escape(line)} \|.*\n\|   {re.escape(title)} \| ([0-9.]+)", page, re.MULTILINE)
        assert found is not None, line
        return float(found[1])

    alone, three = "broker CPU per million", "CPU of all three per million"
    produced = [cost(f"produce, {name} a batch, acks=all", alone) for name in ("1", "50", "1MB")]
    assert [measured for _, measured in PRODUCED_US] == pytest.approx(produced, rel=0.3)
    followed = [
        (cost(f"3 brokers, {name} a batch, acks=all", three) - produced[place]) / 2
        for place, name in ((1, "50"), (2, "1MB"))
    ]
    assert [measured for _, measured in FOLLOWED_US] == pytest.approx(followed, rel=0.3)
    assert pytest.approx(cost("consume", alone), rel=0.5) == CONSUMED_US
