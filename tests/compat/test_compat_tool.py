"""`tools/compat.py` must notice what got worse, and a suite that ran nothing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import compat
import compat_suites
from compat_suites import Result, Suite, SuiteFailed

PASSED, FAILED, SKIPPED = Result("passed"), Result("failed", "why ever"), Result("skipped")
SUITE = Suite("some", "Some suite", lambda: None, lambda *_: {}, {})


def seen(ottla: dict[str, Result], kafka: dict[str, Result] | None = None) -> compat.Outcome:
    return compat.Outcome(SUITE, ottla, kafka or {}, 0.0)


def test_a_test_that_does_worse_than_expected_is_a_fault() -> None:
    expected = {"a": {"ottla": "passed"}}
    assert compat.compare(seen({"a": PASSED}), expected, whole=True) == []
    assert "expected passed" in compat.compare(seen({"a": FAILED}), expected, whole=True)[0]
    assert "expected passed" in compat.compare(seen({"a": SKIPPED}), expected, whole=True)[0]


def test_a_test_that_nobody_expects_or_that_did_not_run_is_a_fault() -> None:
    assert "nothing is expected" in compat.compare(seen({"a": PASSED}), {}, whole=True)[0]
    assert compat.compare(seen({}), {"a": {"ottla": "passed"}}, whole=True) == ["a did not run"]
    assert compat.compare(seen({}), {"a": {"ottla": "passed"}}, whole=False) == []


def test_a_failure_that_apache_kafka_does_not_share_needs_a_reason() -> None:
    outcome = seen({"a": FAILED}, {"a": PASSED})
    assert "does not say why" in compat.compare(outcome, {"a": {"ottla": "failed"}}, whole=True)[0]
    assert compat.compare(outcome, {"a": {"ottla": "failed", "why": "transactions"}}, whole=True) == []


def test_a_suite_that_ran_nothing_fails(tmp_path: Path) -> None:
    with pytest.raises(SuiteFailed, match="nothing"):
        compat.run(SUITE, tmp_path, [], with_kafka=False)


def test_what_failed_gets_a_second_run_by_itself(tmp_path: Path) -> None:
    asked: list[tuple[str, ...]] = []

    def run(_: str, __: Path, only: object) -> dict[str, Result]:
        assert isinstance(only, list)
        asked.append(tuple(only))
        return {"a": PASSED, "b": FAILED} if not only else {"b": PASSED}

    suite = Suite("some", "Some suite", lambda: None, run, {})
    assert compat.judge(suite, "nowhere", tmp_path, []) == {"a": PASSED, "b": PASSED}
    assert asked == [(), ("b",)]


def test_results_are_read_from_what_the_suites_write(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(
        '<testsuites><testsuite><testcase classname="tests.compat.test_kcat" name="test_a[given-gzip]"/>'
        '<testcase classname="t" name="b"><failure message="no&#10; good"/></testcase>'
        '<testcase classname="t" name="c"><skipped message="old"/></testcase></testsuite></testsuites>'
    )
    assert compat_suites.from_junit(report) == {
        "test_kcat::test_a[gzip]": PASSED,
        "t::b": Result("failed", "no good"),
        "t::c": Result("skipped", "old"),
    }
    table = (
        "| 0052_msg_timestamps | FAILED | 176.219s | test_kafka_topics():5261: BROKERS must be set\n| no number | | |\n"
    )
    assert compat_suites.rdkafka_reasons(table) == {
        "0052_msg_timestamps": "test_kafka_topics():5261: BROKERS must be set"
    }
