"""The short form of `make fuzz`."""

from __future__ import annotations

from campaign import campaign


def test_a_broker_under_attack_goes_on_serving_its_other_clients() -> None:
    verdict = campaign(2026, seconds=8, examples=1, turn_ms=2_000)  # on a machine that runs other tests beside it
    assert not verdict.faults, "\n".join([str(verdict), *verdict.faults])
