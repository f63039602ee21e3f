"""Which cases a campaign runs, and the table that comes of them."""

from __future__ import annotations

import json

import pytest
from tests.damage.campaign import Judged
from tests.damage.cases import parse, sample
from tests.damage.harms import HARMS
from tests.damage.kinds import KINDS
from tests.damage.table import as_json, as_page, as_text, rows
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


def test_a_cell_shows_the_worst_finding_and_how_many_cases_are_condemned() -> None:
    heading, segment, port = rows(RESULTS)
    assert segment[0] == "active segment"
    assert segment[1 + HARMS.index("bit")] == "lost 2/3"
    assert port[1 + HARMS.index("emptied")] == "ok 2"
    assert set(port[2:]) == {"-"}
    assert heading[1 + HARMS.index("bit")] == "one bit"


def test_columns_of_the_text_are_aligned() -> None:
    heading, *lines = as_text(RESULTS).splitlines()
    assert [line.index(word) for line, word in zip(lines, ("lost", "ok"), strict=True)] == [
        heading.index("one bit"),
        heading.index("emptied"),
    ]


def test_json_and_page_name_each_condemned_case_once() -> None:
    told = json.loads(as_json(RESULTS, seed=9))
    assert (told["seed"], told["cases"], told["condemned"]) == (9, 5, 2)
    assert told["results"][3]["findings"][0] == {"word": "lost", "what": "offsets 3 to 5"}
    page = as_page(RESULTS, 9, "make damage", "abc1234")
    assert page.count("- `active segment:bit:kill:one:broker-1/x`") == 2
    assert "| lost |" in page
    assert "`make damage`, which drew the seed 9, at commit abc1234" in page
    assert "| .lock | all |" in page
