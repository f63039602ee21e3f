"""The short form of `make fuzz`."""

from __future__ import annotations

from campaign import campaign
from doorway import run


def test_a_broker_under_attack_goes_on_serving_its_other_clients() -> None:
    verdict = campaign(2026, seconds=8, examples=1, turn_ms=2_000)  # on a machine that runs other tests beside it
    assert not verdict.faults, "\n".join([str(verdict), *verdict.faults])


def test_whoever_comes_to_a_login_is_answered_or_closed_with_one_line() -> None:
    outcomes = run(2026, 4_000, examples=1)
    reached = {"before login: proven", "scram: in", "without rights: answered", "without rights: closed", "tls: ended"}
    assert reached <= set(outcomes), outcomes
