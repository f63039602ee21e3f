"""Progress inside a round: the counts of tasks become a line."""

import socket
import threading

import pytest

from ottla.lake.notes.plans import LoadPlan, Publication, RangeCount
from ottla.lake.reports.counts import progress_line
from ottla.lake.rounds import progress
from ottla.lake.rounds.loader import Loaded
from ottla.lake.rounds.progress import Pulse, RoundCounts, RoundProgress
from ottla.lake.rounds.reporting import group_name
from ottla.rows.plan import OffsetRange
from ottla.rows.workers import THIS_MACHINE


def test_the_counts_of_all_tasks_are_one_line():
    counts = RoundCounts("round 3", 1000)
    assert counts.text(4.2) == "round 3: reading 1,000 records, 4 s so far"
    counts.begin("reading")
    counts.take(1, 0, 100)
    counts.take(1, 1, 100)
    counts.take(1, 0, 150)
    assert counts.text(2.0) == "round 3: reading, 250 of 1,000 records (25%), 125/s"


def test_a_task_that_runs_again_and_an_earlier_phase_count_once():
    counts = RoundCounts("round 0", 100)
    counts.begin("reading")
    counts.take(1, 0, 80)
    counts.take(1, 0, 10)
    counts.begin("reading again")
    counts.take(1, 0, 100)
    assert counts.text(1.0) == "round 0: reading again 100 records, 1 s so far"


def test_tasks_tell_the_driver_while_they_run_and_strangers_are_not_heard(monkeypatch):
    monkeypatch.setattr(progress, "PLAIN_EVERY_S", 0.01)
    monkeypatch.setattr(progress, "EVERY_S", 0.01)
    seen, lines = threading.Event(), []

    def tell(line):
        lines.append(line)
        if "30 of 50" in line:
            seen.set()

    with RoundProgress("round 7", 50, THIS_MACHINE, tell) as shown:
        shown.begin("reading")
        pulse = shown.pulse(0)
        stranger = Pulse("127.0.0.1", pulse.port, "guess", pulse.run, 1)
        while not seen.is_set():
            stranger.add(1)
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
                out.sendto(b"\xff nonsense", ("127.0.0.1", pulse.port))
            pulse.records, pulse.due = 0, 0.0
            pulse.add(30)
    assert seen.is_set() and not [line for line in lines if "31 of" in line]


def test_a_driver_that_cannot_be_reached_does_not_disturb_a_task():
    Pulse("host.invalid", 1, "token", 0, 0).add(5)
    Pulse("127.0.0.1", 1, "token", 0, 0).add(5)


@pytest.mark.parametrize("fault", [None, OSError])
def test_the_threads_end_with_the_round(fault):
    before = threading.active_count()
    try:
        with RoundProgress("round 0", 1, THIS_MACHINE, print):
            if fault is not None:
                raise fault
    except OSError:
        pass
    assert threading.active_count() == before


def test_one_record_is_not_several_and_a_slow_round_is_not_without_speed():
    span = OffsetRange("t", 0, 0, 1)
    publication = Publication(LoadPlan(2, (span,)), (), (), (RangeCount(span, records=1, dead=1),))
    assert progress_line(publication, 4.0, 1) == (
        "round 2: 0 records into 0 files (0 bytes), 1 dead letter in 4.0 s, 0.2/s; 1 offset behind"
    )


def test_a_result_is_shown_in_a_line():
    span = OffsetRange("t", 0, 0, 9)
    loaded = Loaded(counts=[RangeCount(span, records=9, rows=7, dead=1, filtered=1)], rounds=1)
    assert repr(loaded) == "Loaded(records=9, rows=7, dead=1, filtered=1, files=0, rounds=1, adds_up=True)"
    assert (loaded.records, loaded.rows, loaded.dead, loaded.filtered) == (9, 7, 1, 1)


@pytest.mark.parametrize(
    ("url", "group"),
    [
        ("file:///srv/weblog", "ottla-lake-weblog-01234567"),
        ("file:///srv/my%20lake%20%C3%BC/", "ottla-lake-my-lake-01234567"),
        ("s3://bucket/prod/orders", "ottla-lake-orders-01234567"),
        ("s3://bucket", "ottla-lake-bucket-01234567"),
    ],
)
def test_the_group_of_a_lakes_loaders_carries_the_lakes_name(url, group):
    assert group_name(url, "0123456789abcdef") == group
