"""`make compat`: other people's clients and their suites against ottla and, in the same run, against Apache Kafka.

Each test's outcome is compared with tests/compat/expected/SUITE.json; a test that did worse is run once more by itself
before it counts, for these suites watch the clock. A whole run of a suite is kept in tests/compat/results, of which
docs/reference/compatibility.md is made. With --secure all brokers listen with SASL_SSL and limit users by ACLs, and
all clients log in; what is expected and kept of such a run is in the folder `secure` of either.

    tools/compat.py [SUITE...] [--secure] [--only TEST...] [--no-kafka] [--accept] [--keep DIR]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tools"), str(ROOT / "tests" / "compat"), str(ROOT / "tests" / "server")]

import compat_report  # noqa: E402
import reaching  # noqa: E402
from apache_kafka import KafkaFailed  # noqa: E402
from compat_running import Result, Results, SuiteFailed  # noqa: E402
from compat_suites import SUITES, Suite  # noqa: E402
from moving_leaders import MovingLeaders, StoodStill  # noqa: E402
from ottla_process import EndedBadly  # noqa: E402
from secured_brokers import SecuredBrokers  # noqa: E402
from tests.server.processes import DidNotStart  # noqa: E402

EXPECTED = ROOT / "tests" / "compat" / "expected"
RESULTS = ROOT / "tests" / "compat" / "results"
_RANK = {"passed": 2, "skipped": 1, "failed": 0}


@dataclass(frozen=True, slots=True)
class Outcome:
    """One suite against both brokers; `kafka` is empty where Apache Kafka was left out, or `without_kafka` says why."""

    suite: Suite
    ottla: Results
    kafka: Results
    seconds: float
    without_kafka: str = ""


def main(arguments: Sequence[str]) -> int:
    options = parser().parse_args(arguments)
    unknown = set(options.suites) - {suite.name for suite in SUITES}
    if unknown:
        print(f"no such suite: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    folder = Path(options.keep or tempfile.mkdtemp(prefix="compat-"))
    secured = None
    if options.secure:
        secured = SecuredBrokers(Path(tempfile.mkdtemp(prefix="secure-", dir=made_folder(folder))))
        os.environ[reaching.GIVEN] = secured.login.text()
    faults: list[str] = []
    for suite in SUITES:
        if options.suites and suite.name not in options.suites:
            continue
        try:
            outcome = run(suite, folder / suite.name, options.only, with_kafka=not options.no_kafka, secured=secured)
        except (SuiteFailed, StoodStill, DidNotStart, EndedBadly) as fault:
            faults.append(f"{suite.name}: {fault}")
            print(f"{suite.name}: no result", flush=True)
            continue
        print(summary(outcome), flush=True)
        if options.accept:
            accept(outcome, secure=options.secure)
        found = compare(outcome, expectation(suite, secure=options.secure), whole=not options.only)
        if outcome.without_kafka:
            found.append(f"no result on Apache Kafka: {outcome.without_kafka}")
        faults += [f"{suite.name}: {fault}" for fault in found]
        if not options.only:
            keep(outcome, secure=options.secure)
    for fault in faults:
        print(f"FAULT {fault}", file=sys.stderr)
    print(f"logs: {folder}")
    return 1 if faults else 0


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="make compat", description=__doc__.partition("\n")[0])
    made.add_argument("suites", nargs="*", help=f"of {', '.join(suite.name for suite in SUITES)} (default: all)")
    made.add_argument("--secure", action="store_true", help="brokers with SASL_SSL and ACLs")
    made.add_argument("--only", nargs="+", default=[], metavar="TEST", help="some tests; no report is written")
    made.add_argument("--no-kafka", action="store_true", help="leave Apache Kafka out")
    made.add_argument("--accept", action="store_true", help="take what happened for the expectation")
    made.add_argument("--keep", metavar="DIR", help="where the logs go")
    return made


def made_folder(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def run(
    suite: Suite, folder: Path, only: Sequence[str], *, with_kafka: bool, secured: SecuredBrokers | None = None
) -> Outcome:
    suite.prepare()
    started = time.monotonic()
    with suite.ottla(suite.settings, secured) as broker:
        ottla = judge(suite, broker.bootstrap, folder / "ottla", only)
        if not broker.running:
            raise SuiteFailed(f"the broker ended:\n{broker.last_words()}")
        if isinstance(broker, MovingLeaders):
            print(f"{suite.name}: {broker.end_of_moves()}", flush=True)
    if not any(result.state == "passed" for result in ottla.values()):
        raise SuiteFailed(f"nothing passed, or nothing ran: see {folder}")
    kafka, why = on_kafka(suite, folder / "kafka", only, secured) if with_kafka else ({}, "")
    return Outcome(suite, ottla, kafka, time.monotonic() - started, why)


def on_kafka(suite: Suite, folder: Path, only: Sequence[str], secured: SecuredBrokers | None) -> tuple[Results, str]:
    """The suite's results on Apache Kafka, or why there are none: those on ottla are kept all the same."""
    try:
        with suite.kafka(suite.settings, secured) as reference:
            results = judge(suite, reference.bootstrap, folder, only)
            if isinstance(reference, MovingLeaders):
                print(f"{suite.name}, Apache Kafka: {reference.end_of_moves()}", flush=True)
    except (KafkaFailed, StoodStill) as fault:
        return {}, str(fault)
    return results, "" if results else f"nothing ran: see {folder}"


def judge(suite: Suite, bootstrap: str, folder: Path, only: Sequence[str]) -> Results:
    """Run a suite; run each failed test a second time by itself, without other tests that load the machine."""
    folder.mkdir(parents=True, exist_ok=True)
    results = suite.run(bootstrap, folder, only)
    failed = sorted(name for name, result in results.items() if result.state == "failed")
    if failed:
        again_folder = folder / "again"
        again_folder.mkdir(exist_ok=True)
        again = suite.run(bootstrap, again_folder, failed)
        results |= {name: result for name, result in again.items() if name in failed and result.state == "passed"}
    return results


def compare(outcome: Outcome, expected: Mapping[str, Mapping[str, str]], *, whole: bool) -> list[str]:
    """Tests that did worse than expected, that nothing is expected of, or that did not run."""
    faults = []
    for name, result in sorted(outcome.ottla.items()):
        wanted = expected.get(name)
        if wanted is None:
            faults.append(f"{name} {result.state}, and nothing is expected of it")
        elif _RANK[result.state] < _RANK[wanted["ottla"]]:
            faults.append(f"{name} {result.state}, expected {wanted['ottla']}: {result.said}")
        elif result.state == "failed" and not wanted.get("why") and outcome.kafka.get(name, result).state == "passed":
            faults.append(f"{name} fails here and passes on Apache Kafka, and the expectation does not say why")
    missing = sorted(set(expected) - set(outcome.ottla)) if whole else []
    return faults + [f"{name} did not run" for name in missing]


def expectation(suite: Suite, *, secure: bool = False) -> dict[str, dict[str, str]]:
    """The expectation of each test; with SASL_SSL the same, but for the tests that the folder `secure` names."""
    return compat_report.expected_of(EXPECTED, suite.name, secure=secure)


def accept(outcome: Outcome, *, secure: bool = False) -> None:
    """Write the expectation anew; keep its reasons. With SASL_SSL only what is expected otherwise is written."""
    before = expectation(outcome.suite, secure=secure)
    entries = dict(before)
    for name, row in rows(outcome).items():
        why = before.get(name, {}).get("why", "")
        if row["ottla"] != "passed" and not why:
            why = row["said"]
        entries[name] = {"ottla": row["ottla"], "kafka": row["kafka"] or before.get(name, {}).get("kafka", "")}
        if row["ottla"] != "passed":
            entries[name]["why"] = why
    folder = EXPECTED
    if secure:
        folder, plain = EXPECTED / compat_report.SECURE, expectation(outcome.suite)
        entries = {name: entry for name, entry in entries.items() if entry != plain.get(name)}
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{outcome.suite.name}.json"
    file.write_text(json.dumps(entries, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def keep(outcome: Outcome, *, secure: bool = False) -> None:
    """Note a suite's result and make the page anew, before the next suite: a whole run takes long and may be cut."""
    results = RESULTS / compat_report.SECURE if secure else RESULTS
    compat_report.keep(results, outcome.suite, rows(outcome))
    compat_report.write(RESULTS, EXPECTED)


def rows(outcome: Outcome) -> dict[str, dict[str, str]]:
    """For each test, its result on each side and its message."""
    missing = Result("")
    return {
        name: {"ottla": result.state, "kafka": outcome.kafka.get(name, missing).state, "said": result.said}
        for name, result in sorted(outcome.ottla.items())
    }


def summary(outcome: Outcome) -> str:
    def counts(results: Results) -> str:
        states = [result.state for result in results.values()]
        return ", ".join(f"{states.count(state)} {state}" for state in ("passed", "failed", "skipped"))

    beside = f"; Apache Kafka: {counts(outcome.kafka)}" if outcome.kafka else ""
    return f"{outcome.suite.name}: {counts(outcome.ottla)}{beside} ({outcome.seconds:.0f} s)"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
