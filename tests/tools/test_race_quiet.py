"""A race is told what else used the machine, and writes no page where that was too much."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from bench import race
from bench.brokers import ROOT, TICKS
from bench.lines import Line, all_lines
from bench.others import Others, Process
from bench.quiet import OTHERS, Watch, share
from bench.report import PAGES, WITH_CHANGES, Outcome, Race, write_performance


def outcome(name: str, others: float) -> Outcome:
    return Outcome(Line(name, (), lambda _rig, _contestant: {}), others=others)


def raced(*outcomes: Outcome, load: float = 0.1, commit: str = "0123abc") -> Race:
    return Race({"load_before": load, "cores": 2, "commit": commit}, list(outcomes))


def process(pid: int, parent: int, used: int, reaped: int = 0, began: int = 7) -> Process:
    return Process(pid, began, parent, used, reaped)


def machine(*processes: Process) -> dict[int, Process]:
    return {each.pid: each for each in processes}


def ticks_of_others(*looks: dict[int, Process], root: int = 10) -> int:
    others = Others(root)
    for now in looks:
        others.look(now)
    return others.ticks


INIT, RACE = process(1, 0, 500, 500), process(10, 1, 100)


def test_others_are_the_processes_outside_the_family() -> None:
    before = machine(INIT, RACE, process(11, 10, 50), process(20, 1, 1000))
    now = machine(INIT, process(10, 1, 190), process(11, 10, 80), process(20, 1, 1007), process(21, 20, 4))
    assert ticks_of_others(before, now) == 11


def test_another_process_that_ended_between_two_looks_is_found_in_what_its_parent_reaped() -> None:
    before = machine(INIT, RACE, process(20, 1, 30), process(21, 20, 600))
    now = machine(INIT, RACE, process(20, 1, 31, reaped=640))
    assert ticks_of_others(before, now) == 41
    assert ticks_of_others(machine(INIT, RACE), machine(process(1, 0, 500, 525), RACE)) == 25


def test_a_whole_tree_of_others_that_ended_counts_for_what_it_used_since_the_last_look() -> None:
    before = machine(INIT, RACE, process(20, 1, 0), process(21, 20, 300, reaped=40), process(22, 21, 70))
    assert ticks_of_others(before, machine(INIT, RACE, process(20, 1, 0, reaped=415))) == 5


def test_another_process_that_nobody_waited_for_keeps_what_was_seen_of_it() -> None:
    born, later, gone = (machine(INIT, RACE, *more) for more in ([process(20, 1, 8)], [process(20, 1, 60)], []))
    assert ticks_of_others(machine(INIT, RACE), born, later, gone) == 60


def test_a_pid_that_was_given_to_another_process_is_not_taken_for_the_first() -> None:
    before, now = machine(INIT, RACE, process(20, 10, 900)), machine(INIT, RACE, process(20, 1, 3, began=8))
    assert ticks_of_others(before, now) == 3


def test_a_process_of_ours_stays_ours_when_it_is_seen_outside_the_family() -> None:
    before = machine(INIT, RACE, process(11, 10, 50), process(12, 11, 50))
    assert ticks_of_others(before, machine(INIT, RACE, process(12, 1, 90))) == 0


@pytest.mark.parametrize("case", ["ours-adopted", "ours-unwaited"])
def test_real_processes_of_ours_that_end_without_their_parent_or_its_wait_are_not_others(case: str) -> None:
    assert ticks_of_real_others(case) < 0.2 * TICKS


@pytest.mark.parametrize("case", ["others-end", "others-live"])
def test_real_processes_beside_the_family_are_others_also_when_they_end_between_two_looks(case: str) -> None:
    assert ticks_of_real_others(case) >= 0.39 * TICKS


def ticks_of_real_others(case: str) -> int:
    command = [sys.executable, Path(__file__).with_name("race_families.py"), case]
    return int(subprocess.run(command, capture_output=True, check=True, timeout=300).stdout)


def test_a_watch_counts_others_from_its_beginning_to_its_end() -> None:
    burn = "import time\nwhile time.process_time() < 0.4: pass\n"
    with Watch(root=0) as watch:  # of a family that has no member, so that this test's own child is another process
        subprocess.run([sys.executable, "-c", burn], check=True)
    assert watch.share * watch.seconds * (os.cpu_count() or 1) >= 0.39


def test_a_share_is_of_all_cores() -> None:
    assert share(2 * TICKS, 10.0, cores=2) == pytest.approx(0.1)


@pytest.mark.parametrize(("how", "status"), [("sys.exit(3)", 3), ("os.kill(os.getpid(), 9)", 137)])
def test_a_keeper_ends_with_the_status_of_its_child(how: str, status: int) -> None:
    program = f"import os, sys; from bench.keeper import kept\nsys.exit(kept(lambda root: {how}))"
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False).returncode == status


def test_a_keeper_that_is_told_to_end_lets_its_child_stop_its_brokers() -> None:
    program = (
        "import sys, threading; from bench.keeper import kept\n"
        "def work(root):\n"
        "    try: print('begun', flush=True); threading.Event().wait()\n"
        "    finally: print('stopped', flush=True)\n"
        "sys.exit(kept(work))"
    )
    with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True) as keeper:
        assert keeper.stdout is not None
        assert keeper.stdout.readline() == "begun\n"
        keeper.send_signal(signal.SIGTERM)
        assert keeper.stdout.readline() == "stopped\n"
    assert keeper.returncode == 128 + signal.SIGTERM


def test_a_disturbed_race_and_one_that_began_under_load_write_no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    pages: list[Race] = []
    monkeypatch.setattr(race, "write_performance", lambda page, made: pages.append(made) or page.path.name)
    quiet, loud = outcome("consume", OTHERS), outcome("produce-1", 0.2)
    assert "produce-1 20%" in race.written(raced(quiet, loud), ["broker"]) and not pages
    assert "the load was 0.40 per core" in race.written(raced(quiet, load=0.8), ["broker"]) and not pages
    made = raced(quiet)
    assert race.written(made, ["broker"]) == "written: performance.md" and pages == [made]


@pytest.mark.parametrize("commit", ["", "0123abc" + WITH_CHANGES])
def test_a_race_of_code_that_no_commit_holds_writes_no_page(commit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(race, "write_performance", lambda *_: pytest.fail("written"))
    assert "no commit holds the code" in race.written(raced(outcome("consume", 0.0), commit=commit), ["broker"])


def test_every_line_stands_on_one_page() -> None:
    for line in all_lines():
        assert sum(page.shows(line.name) for page in PAGES.values()) == 1, line.name
    assert PAGES["broker"].shows("connections-idle") and PAGES["connect-streams"].shows("connect-file-sink")


def test_a_page_holds_its_own_lines(tmp_path: Path) -> None:
    page = replace(PAGES["connect-streams"], path=tmp_path / "page.md")
    made = raced(outcome("consume", 0.0), outcome("streams-count", 0.0))
    for each in made.outcomes:
        each.fault = "it ended"
    made.facts |= {"date": "today", "kafka": "4.3.1"}
    text = write_performance(page, made).read_text()
    assert "`0123abc`" in text and "| streams-count |" in text and "| consume |" not in text
