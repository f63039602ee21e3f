"""Tests of the output and the exit status of `ottla sim`."""

from __future__ import annotations

import gc
import sys

import pytest

from ottla.cli.sim import command as cli_command
from ottla.sim import command as sim_command
from ottla.sim.administrator import ACTS
from ottla.sim.assigned_group import ASSIGNED_ACTS
from ottla.sim.checkers.history import Anomaly
from ottla.sim.guests import GUEST_ACTS
from ottla.sim.limiting import LIMITED
from ottla.sim.plan import CLUSTER_FAULTS, FAULTS
from ottla.sim.transaction_producers import COMMITTED
from ottla.sim.transactions import ALL_ACTS
from ottla.sim.world import THROTTLED, Note, Result, World

_ACTS = (*ACTS, *ALL_ACTS, *ASSIGNED_ACTS, *GUEST_ACTS, LIMITED, THROTTLED)


def a_result(seed: int, anomalies: list[Anomaly], **changes: object) -> Result:
    faults, acts = dict.fromkeys(FAULTS, 1), dict.fromkeys(_ACTS, 1)
    return Result(seed, anomalies, "ab", 1000, faults, acts, 5, 1, 2, 100, 5000)._replace(**changes)


def run(arguments: list[str]) -> int:
    return cli_command(arguments)


def worlds() -> int:
    """The number of worlds in memory, among them those that are to be collected."""
    return sum(isinstance(each, World) for each in gc.get_objects())


def test_green_seeds_end_with_0_and_what_they_did(capsys: pytest.CaptureFixture[str]):
    assert run(["--seeds", "2", "--from", "6"]) == 0
    out = capsys.readouterr().out
    assert "2 seeds, no anomalies" in out
    assert all(f" {kind}" in out for kind in FAULTS)


def test_a_terminal_shows_how_many_worlds_have_run_and_a_file_does_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(sim_command, "run_seed", lambda seed, note, brokers: a_result(seed, []))
    run(["--seeds", "3"])
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    run(["--seeds", "3"])
    assert "3/3" in capsys.readouterr().err


def test_worlds_are_gone_from_memory():
    before = worlds()
    run(["--seeds", "2", "--from", "209156", "--brokers", "3"])
    assert worlds() <= before


def test_an_anomaly_ends_with_1_and_the_command_that_replays_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(
        sim_command, "run_seed", lambda seed, note, brokers: a_result(seed, [Anomaly("lost-write", "t-0@7")])
    )
    assert run(["--seeds", "9", "--from", "3"]) == 1
    said = capsys.readouterr().err
    assert "lost-write: t-0@7" in said
    assert "ottla sim --seed 3 --trace" in said


def test_a_campaign_in_which_a_fault_never_struck_says_nothing_and_ends_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    struck = dict.fromkeys(FAULTS, 1) | {"failed sync": 0}
    monkeypatch.setattr(sim_command, "run_seed", lambda seed, note, brokers: a_result(seed, [], faults=struck))
    assert run(["--seeds", "50"]) == 1
    assert "failed sync" in capsys.readouterr().err


@pytest.mark.parametrize("act", [COMMITTED, *ASSIGNED_ACTS, *GUEST_ACTS, LIMITED, THROTTLED])
def test_so_does_one_in_which_an_act_never_happened(
    act: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    acts = dict.fromkeys(_ACTS, 1) | {act: 0}
    monkeypatch.setattr(sim_command, "run_seed", lambda seed, note, brokers: a_result(seed, [], acts=acts))
    assert run(["--seeds", "50"]) == 1
    assert act in capsys.readouterr().err


@pytest.mark.parametrize(("brokers", "status"), [("1", 0), ("3", 0), ("4", 1)])
def test_so_does_one_in_which_nothing_was_reassigned_although_there_was_room(
    brokers: str, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    faults, acts = dict.fromkeys(CLUSTER_FAULTS, 1), dict.fromkeys(_ACTS, 1)
    acts["replicas reassigned"] = 0
    monkeypatch.setattr(
        sim_command, "run_seed", lambda seed, note, brokers: a_result(seed, [], faults=faults, acts=acts)
    )
    assert run(["--seeds", "50", "--brokers", brokers]) == status
    assert ("replicas reassigned" in capsys.readouterr().err) == bool(status)


def test_the_trace_is_printed_with_its_virtual_times(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def runs(seed: int, note: Note | None, brokers: int) -> Result:
        assert note is not None
        note(1500, "something")
        return a_result(seed, [])

    monkeypatch.setattr(sim_command, "run_seed", runs)
    assert run(["--seed", "3", "--trace"]) == 0
    out = capsys.readouterr().out
    assert "1.500 something" in out
    assert "trace ab" in out
