"""Tests of which cases a campaign runs, and of the table of results."""

from __future__ import annotations

import json

import pytest
from tests.damage.campaign import Judged
from tests.damage.cases import parse, sample
from tests.damage.harms import HARMS
from tests.damage.kinds import KINDS
from tests.damage.table import Page, as_json, as_page, as_text, rows
from tests.damage.values import ALONE, CLEAN, FIRST, KILL, LAST, ONE, Case, Finding, Outcome

ALL = [
    Case(kind, harm, stop, setting, "broker-1/port")
    for kind in KINDS
    for harm in HARMS
    for stop in (CLEAN, KILL)
    for setting in (ONE, FIRST, LAST, ALONE)
]
LOST, UNSAID = Finding("lost", "offsets 3 to 5"), Finding("unsaid", "no warning")


def test_a_sample_leaves_no_kind_out() -> None:
    chosen = sample(ALL, len(KINDS), seed=1)
    assert sorted(case.kind for case in chosen) == sorted(KINDS)


def test_a_larger_sample_takes_each_damage_of_a_kind_before_one_twice() -> None:
    chosen = sample(ALL, len(KINDS) * len(HARMS), seed=1)
    assert len({(case.kind, case.harm) for case in chosen}) == len(chosen)
    assert {case.setting for case in chosen} == {ONE, FIRST, LAST, ALONE}
    assert {case.stop for case in chosen} == {CLEAN, KILL}


def test_a_sample_takes_each_damage_of_each_kind_before_one_twice_where_a_kind_has_few() -> None:
    few = [case for case in ALL if case.kind != "port" or case.harm in ("removed", "bit")]
    pairs = {(case.kind, case.harm) for case in few}
    chosen = sample(few, len(pairs), seed=1)
    assert {(case.kind, case.harm) for case in chosen} == pairs


def test_a_sample_is_drawn_from_the_seed_and_is_never_larger_than_all() -> None:
    assert sample(ALL, 40, seed=1) == sample(ALL, 40, seed=1) != sample(ALL, 40, seed=2)
    assert sorted(sample(ALL, 10**6, seed=1)) == sorted(ALL)


def test_a_case_is_found_by_its_name() -> None:
    for case in (ALL[0], ALL[0]._replace(harm="bit", stratum="leader epoch of the first batch")):
        assert parse(case.name) == case
    with pytest.raises(ValueError, match="is no case"):
        parse("port:burnt:clean:one:broker-1/port")


def judged(kind: str, harm: str, *findings: Finding) -> Judged:
    return Judged(Case(kind, harm, KILL, ONE, "broker-1/x"), list(findings), Outcome())


RESULTS = [
    judged("port", "emptied"),
    judged("port", "emptied"),
    judged("active segment", "bit", UNSAID),
    judged("active segment", "bit", LOST, UNSAID),
    judged("active segment", "bit"),
]


PLAN = {("port", "emptied"): 2, ("port", "removed"): 8, ("active segment", "bit"): 3}


def test_a_cell_shows_the_worst_finding_and_how_many_cases_are_condemned() -> None:
    heading, segment, port = rows(RESULTS, PLAN)
    assert segment[0] == "active segment"
    assert segment[1 + HARMS.index("bit")] == "lost 2/3"
    assert port[1 + HARMS.index("emptied")] == "ok 2"
    assert heading[1 + HARMS.index("bit")] == "one bit"


def test_a_cell_of_which_nothing_has_run_is_empty_and_one_without_cases_has_a_dash() -> None:
    _, segment, port = rows(RESULTS, PLAN)
    assert port[1 + HARMS.index("removed")] == ""
    assert port[1 + HARMS.index("older")] == "-"
    assert (segment[-1], port[-1]) == ("3 of 3", "2 of 10")


def test_columns_of_the_text_are_aligned() -> None:
    heading, *lines = as_text(RESULTS, {}).splitlines()
    assert [line.index(word) for line, word in zip(lines, ("lost", "ok"), strict=True)] == [
        heading.index("one bit"),
        heading.index("emptied"),
    ]


def test_json_and_page_name_each_condemned_case_once() -> None:
    told = json.loads(as_json(RESULTS, seed=9))
    assert (told["seed"], told["cases"], told["condemned"]) == (9, 5, 2)
    assert told["results"][3]["findings"][0] == {"word": "lost", "what": "offsets 3 to 5"}
    page = as_page(RESULTS, Page(9, "make damage", {("abc1234", "2026-01-02"): 5}, PLAN))
    assert page.count("- `active segment:bit:kill:one:broker-1/x`") == 2
    assert "| lost |" in page
    assert "`make damage`, which drew the seed 9, at commit abc1234 on 2026-01-02." in page
    assert "5 of 13 cases have run, 2 condemned." in page
    assert "| kill -9 | 5 | 0 | 0 | 0 |" in page
    assert "| .lock | all |" in page


def test_a_page_tells_how_many_cases_were_run_at_each_commit() -> None:
    page = as_page(RESULTS, Page(9, "make damage", {("abc", "2026-01-02"): 3, ("def", "2026-01-03"): 2}, PLAN))
    assert "at commits abc on 2026-01-02 (3 cases), def on 2026-01-03 (2 cases)." in page
