"""Tests that results survive an interrupt of the campaign."""

from __future__ import annotations

from pathlib import Path

from tests.damage.campaign import Judged
from tests.damage.ledger import Ledger, planned, without
from tests.damage.values import ALONE, CLEAN, KILL, ONE, Case, Finding, Outcome

PORT = Case("port", "emptied", KILL, ONE, "broker-1/port")
BIT = Case("active segment", "bit", CLEAN, ALONE, "broker-2/plain-0/1.log", "crc of the last batch")
LOST = Finding("lost", "offsets 3 to 5")


def judged(case: Case, *findings: Finding) -> Judged:
    return Judged(case, list(findings), Outcome(took_s=1.5))


def a_ledger(path: Path) -> Ledger:
    ledger = Ledger(path)
    ledger.begin(7, planned([PORT, BIT, BIT]))
    ledger.add(judged(PORT), "abc", "2026-01-02")
    ledger.add(judged(BIT, LOST), "abc", "2026-01-02")
    return ledger


def test_results_are_read_back_with_the_seed_and_the_plan(tmp_path: Path) -> None:
    written, read = a_ledger(tmp_path / "results"), Ledger(tmp_path / "results")
    for ledger in (written, read):
        assert (ledger.seed, ledger.plan) == (7, {("port", "emptied"): 1, ("active segment", "bit"): 2})
        assert ledger.results == [judged(PORT), judged(BIT, LOST)]
        assert ledger.made == {("abc", "2026-01-02"): 2}


def test_a_line_that_an_interrupt_cut_off_is_left_out_and_the_next_one_stands_alone(tmp_path: Path) -> None:
    path = tmp_path / "results"
    a_ledger(path)
    path.write_text(path.read_text()[:-20])
    ledger = Ledger(path)
    assert ledger.results == [judged(PORT)]
    ledger.add(judged(BIT), "def", "2026-01-03")
    assert Ledger(path).results == [judged(PORT), judged(BIT)]


def test_a_case_that_is_run_again_has_its_last_result(tmp_path: Path) -> None:
    ledger = a_ledger(tmp_path / "results")
    ledger.add(judged(BIT), "def", "2026-01-03")
    again = Ledger(tmp_path / "results")
    assert again.results == [judged(PORT), judged(BIT)]
    assert again.made == {("abc", "2026-01-02"): 1, ("def", "2026-01-03"): 1}


def test_a_narrower_campaign_does_not_shrink_the_plan(tmp_path: Path) -> None:
    ledger = a_ledger(tmp_path / "results")
    ledger.begin(7, planned([BIT]))
    assert Ledger(tmp_path / "results").plan == {("port", "emptied"): 1, ("active segment", "bit"): 2}


def test_without_a_file_results_are_known_until_the_end() -> None:
    ledger = Ledger(None)
    ledger.begin(7, planned([PORT]))
    ledger.add(judged(PORT), "abc", "2026-01-02")
    assert ledger.results == [judged(PORT)]


def test_cases_that_are_settled_are_not_run_again_though_their_file_has_another_name() -> None:
    elsewhere = BIT._replace(path="broker-2/moved-0/2.log", stratum="magic of the first batch")
    assert without([PORT, BIT, elsewhere], [judged(BIT)]) == [PORT, elsewhere]
    assert without([PORT, elsewhere], [judged(BIT)]) == [PORT]
