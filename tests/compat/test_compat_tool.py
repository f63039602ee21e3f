"""`tools/compat.py` must notice results that got worse, and a suite that ran nothing."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
import reaching
from apache_kafka import KafkaFailed
from secured_brokers import SecuredBrokers

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import compat
import compat_librdkafka
import compat_report
import compat_running
import compat_suites
from compat_running import Result, SuiteFailed
from compat_suites import Suite

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


@contextmanager
def no_kafka(*_: object) -> Iterator[SimpleNamespace]:
    raise KafkaFailed("it did not start")
    yield


def suite_on(run: object, kafka: object) -> Suite:
    broker = SimpleNamespace(bootstrap="nowhere", running=True)
    return Suite("some", "Some suite", lambda: None, run, {}, lambda *_: nullcontext(broker), kafka)


def test_what_ottla_did_is_kept_where_apache_kafka_gives_no_result(tmp_path: Path) -> None:
    outcome = compat.run(suite_on(lambda *_: {"a": PASSED}, no_kafka), tmp_path, [], with_kafka=True)
    assert (outcome.ottla, outcome.kafka, outcome.without_kafka) == ({"a": PASSED}, {}, "it did not start")
    answers = iter([{"a": PASSED}, {}])
    broker = SimpleNamespace(bootstrap="nowhere")
    suite = suite_on(lambda *_: next(answers), lambda *_: nullcontext(broker))
    assert "nothing ran" in compat.run(suite, tmp_path, [], with_kafka=True).without_kafka


def test_a_missing_result_of_apache_kafka_is_a_fault_and_the_next_suite_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    suites = [suite_on(lambda *_: {"a": PASSED}, no_kafka) for _ in range(2)]
    monkeypatch.setattr(compat, "SUITES", suites)
    monkeypatch.setattr(compat, "expectation", lambda *_, **__: {"a": {"ottla": "passed"}})
    assert compat.main(["--only", "a", "--keep", str(tmp_path)]) == 1
    assert capsys.readouterr().err == "FAULT some: no result on Apache Kafka: it did not start\n" * 2


CHILD = "import os, sys, time; os.open(sys.argv[1], os.O_WRONLY); print('opened', flush=True); time.sleep(600)"
PARENT = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {CHILD!r}, sys.argv[1]], stdout=subprocess.PIPE)
assert child.stdout.readline() == b"opened\\n"
"""


def test_nothing_that_a_suite_started_runs_on_after_it(tmp_path: Path) -> None:
    pipe = tmp_path / "held-open-by-the-child"
    os.mkfifo(pipe)
    end = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    command = [sys.executable, "-c", PARENT, str(pipe)]
    assert compat_running.execute(command, log=tmp_path / "log", timeout=300) == 0
    assert select.select([end], [], [], 300)[0] and os.read(end, 1) == b""
    os.close(end)


REPORTS = """
import signal
try:
    print("ready", flush=True)
    signal.pause()
except KeyboardInterrupt:
    print("report")
"""


def test_a_suite_whose_time_is_over_may_still_report() -> None:
    process = subprocess.Popen([sys.executable, "-c", REPORTS], stdout=subprocess.PIPE)
    with process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        compat_running.interrupt(process)
        assert (process.returncode, process.stdout.read()) == (0, b"report\n")


def test_a_suites_result_is_kept_before_the_next_suite_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results, page = tmp_path / "results", tmp_path / "page.md"
    write = compat_report.write
    monkeypatch.setattr(compat, "RESULTS", results)
    monkeypatch.setattr(compat_report, "write", lambda *folders: write(*folders, page=page))
    first, second = compat_suites.SUITES[:2]
    there: list[bool] = []

    def run(suite: Suite, *_: object, **__: object) -> compat.Outcome:
        there.append((results / f"{first.name}.json").exists() and first.title in page.read_text())
        if suite is second:
            raise SuiteFailed("cut")
        return compat.Outcome(suite, {"a": PASSED}, {}, 0.0)

    monkeypatch.setattr(compat, "run", run)
    compat.main([first.name, second.name, "--no-kafka", "--keep", str(tmp_path / "logs")])
    assert there == [False, True]


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
    assert compat_running.from_junit(report) == {
        "test_kcat::test_a[gzip]": PASSED,
        "t::b": Result("failed", "no good"),
        "t::c": Result("skipped", "old"),
    }
    table = (
        "| 0052_msg_timestamps | FAILED | 176.219s | test_kafka_topics():5261: BROKERS must be set\n| no number | | |\n"
    )
    assert compat_librdkafka.reasons(table) == {"0052_msg_timestamps": "test_kafka_topics():5261: BROKERS must be set"}


def test_the_page_shows_a_run_with_its_day_commit_and_settings_and_leaves_empty_what_was_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suites = [Suite(name, f"Suite {name}", lambda: None, lambda *_: {}, {"a.b": "7"}) for name in ("one", "two", "six")]
    monkeypatch.setattr(compat_suites, "SUITES", suites)
    results, expected, page = tmp_path / "results", tmp_path / "expected", tmp_path / "page.md"
    expected.mkdir()
    (expected / "one.json").write_text('{"t::b": {"ottla": "failed", "kafka": "passed", "why": "a reason"}}')
    (expected / "two.json").write_text('{"t::c": {"ottla": "passed", "kafka": "passed"}}')
    outcome = compat.Outcome(suites[0], {"t::a": PASSED, "t::b": FAILED}, {"t::a": PASSED, "t::b": PASSED}, 1.0)
    compat_report.keep(results, suites[0], compat.rows(outcome))
    compat_report.write(results, expected, page)
    lines = page.read_text().splitlines()
    row = next(line for line in lines if line.startswith("| Suite one"))
    today = compat_report.last_run(results, "one")["date"]
    assert row.split(" | ")[1:4] == ["1 passed, 1 failed", "2 passed", today] and "`a.b=7`" in row
    assert "| Suite two |  |  |  |  |  |" in lines
    assert "| `t::b` | failed | passed | a reason |" in lines
    assert "Not run." in lines[lines.index("## Suite two") + 2]


def test_with_sasl_ssl_only_what_is_expected_otherwise_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compat, "EXPECTED", tmp_path)
    (tmp_path / "some.json").write_text(
        '{"a": {"ottla": "passed", "kafka": "passed"}, "b": {"ottla": "passed", "kafka": "passed"}}'
    )
    no_login = Result("skipped", "takes no login")
    outcome = seen({"a": PASSED, "b": no_login}, {"a": PASSED, "b": no_login})
    assert "expected passed" in compat.compare(outcome, compat.expectation(SUITE, secure=True), whole=True)[0]
    compat.accept(outcome, secure=True)
    assert json.loads((tmp_path / "secure" / "some.json").read_text()) == {
        "b": {"ottla": "skipped", "kafka": "skipped", "why": "takes no login"}
    }
    assert compat.compare(outcome, compat.expectation(SUITE, secure=True), whole=True) == []
    assert "expected passed" in compat.compare(outcome, compat.expectation(SUITE), whole=True)[0]


def test_the_page_shows_beside_a_run_with_sasl_ssl_what_ended_otherwise_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suites = [Suite(name, f"Suite {name}", lambda: None, lambda *_: {}, {}) for name in ("one", "two")]
    monkeypatch.setattr(compat_suites, "SUITES", suites)
    results, page = tmp_path / "results", tmp_path / "page.md"
    plain = compat.Outcome(suites[0], {"t::a": PASSED, "t::b": FAILED}, {}, 1.0)
    guarded = compat.Outcome(suites[0], {"t::a": Result("skipped", "no login"), "t::b": FAILED}, {}, 1.0)
    compat_report.keep(results, suites[0], compat.rows(plain))
    compat_report.keep(results / "secure", suites[0], compat.rows(guarded))
    compat_report.write(results, tmp_path / "expected", page)
    section = page.read_text().partition("## With SASL_SSL")[2]
    assert "| Suite one | 1 failed, 1 skipped |" in section
    assert "| `t::a` | skipped | passed |  | no login |" in section
    assert "t::b" not in section and "Suite two, with" not in section


def test_a_secured_run_gives_brokers_and_clients_the_same_authority(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[object] = []

    def broker(settings: object, secured: SecuredBrokers | None) -> nullcontext[SimpleNamespace]:
        given.append(secured)
        return nullcontext(SimpleNamespace(bootstrap="nowhere", running=True))

    def run(*_: object) -> dict[str, Result]:
        given.append(reaching.login())
        return {"a": PASSED}

    monkeypatch.setattr(compat, "SUITES", [Suite("some", "Some suite", lambda: None, run, {}, broker, broker)])
    monkeypatch.setenv(reaching.GIVEN, "")  # what the run sets is taken back
    compat.main(["--secure", "--only", "a", "--keep", str(tmp_path)])
    secured, login, *_ = given
    assert isinstance(secured, SecuredBrokers) and login == secured.login
    assert given == [secured, login] * 2


def test_a_run_of_code_that_was_not_committed_is_said_to_be_one(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        named = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        done = subprocess.run(["git", *named, *words], cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def kept() -> str:
        results = tmp_path / "tests" / "compat" / "results"
        results.parent.mkdir(parents=True, exist_ok=True)
        compat_report.keep(results, SUITE, {}, repository=tmp_path)
        return compat_report.last_run(results, SUITE.name)["commit"]

    code = tmp_path / "src" / "log.py"
    code.parent.mkdir()
    code.write_text("a = 1\n")
    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "Begin")
    commit = git("rev-parse", "--short", "HEAD")
    assert kept() == commit
    assert kept() == commit, "what an earlier suite left is no change of the code"
    code.write_text("a = 2\n")
    assert kept() == commit + " with changes"


def test_tests_of_the_consumer_protocol_are_those_that_have_members_and_are_not_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = {
        "0001-joins.c": "rd_kafka_subscribe(rk, topics);",
        "0002-produces.cpp": "producer->produce(topic);",
        "0003-helped.cpp": "test_create_consumer(group, cb);",
        "0098-consumer_txn.cpp": "consumer->subscribe(topics);",
        "0115-joins_with_acls.c": "rd_kafka_subscribe(rk, topics);",
    }
    names = [file.partition(".")[0].replace("-", "_") for file in sources]
    entries = "".join(f"_TEST({name}, 0)," for name in names)
    (tmp_path / "test.c").write_text(f"struct test tests[] = {{ {entries}\n}};")
    for file, source in sources.items():
        (tmp_path / file).write_text(source)
    monkeypatch.setattr(compat_librdkafka, "TESTS", tmp_path)
    assert compat_librdkafka.tests_of("default") == names
    assert compat_librdkafka.tests_in_groups() == ["0001_joins", "0003_helped"]


def test_a_result_says_nothing_of_where_the_tree_lies() -> None:
    said = f'system("{compat_running.ROOT}/.cache/compat/bin/tool")\n  failed'
    assert compat_running.one_line(said) == 'system(".cache/compat/bin/tool") failed'
