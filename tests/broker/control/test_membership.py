"""A broker proves itself over the certificate that its listener shows, to brokers that do so too."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest

from ottla.broker.control.membership import PeerProof, bound_by, covered
from ottla.broker.environment import Environment
from ottla.kernel.ids import BrokerEpoch, BrokerId
from ottla.metadata.broker_state import BrokerState
from ottla.metadata.state import Metadata
from ottla.wire.sasl import Hello, NotProven, check_answer, prove_dialler

SHOWN, OTHER = b"s" * 32, b"o" * 32
SECRET = b"k" * 32
ME = Hello(2, 22, b"n" * 32)
SASL_SSL, PLAINTEXT = 3, 0


def cluster(*, old: int = 0) -> Metadata:
    """Brokers 1 and 2, with TLS; `old` is of a release without the note."""
    state = Metadata()
    state.secret = SECRET
    for number in (1, 2):
        note = () if number == old else bound_by([PLAINTEXT, SASL_SSL])
        state.brokers[BrokerId(number)] = BrokerState(
            BrokerId(number), BrokerEpoch(number * 11), "i", "host", None, (), 2, fenced=False, draining=False,
            options=note,
        )  # fmt: skip
    return state


def proof_of(state: Metadata) -> PeerProof:
    """The side of broker 1, whose listener shows SHOWN."""
    around = SimpleNamespace(
        metadata=state,
        broker=BrokerId(1),
        follow=SimpleNamespace(broker_epoch=BrokerEpoch(11)),
        entropy=SimpleNamespace(bytes=lambda count: b"m" * count),
    )
    proof = PeerProof(cast(Environment, around))
    proof.certificate_hash = SHOWN
    return proof


def test_a_broker_that_saw_the_same_certificate_is_let_in() -> None:
    proof = proof_of(cluster())
    theirs = check_answer(SECRET, ME, asyncio.run(proof.step(ME.encode())), SHOWN)
    assert asyncio.run(proof.step(prove_dialler(SECRET, ME, theirs, SHOWN))) == b""
    assert proof.proven == (2, 22)


def test_neither_side_believes_where_somebody_between_them_shows_another_certificate() -> None:
    proof = proof_of(cluster())
    answer = asyncio.run(proof.step(ME.encode()))
    with pytest.raises(NotProven):
        check_answer(SECRET, ME, answer, OTHER)
    theirs = check_answer(SECRET, ME, answer, SHOWN)
    with pytest.raises(NotProven):
        asyncio.run(proof.step(prove_dialler(SECRET, ME, theirs, OTHER)))
    assert proof.proven is None


@pytest.mark.parametrize("old", [1, 2])
def test_brokers_of_an_older_release_prove_themselves_as_they_always_did(old: int) -> None:
    proof = proof_of(cluster(old=old))
    theirs = check_answer(SECRET, ME, asyncio.run(proof.step(ME.encode())))
    asyncio.run(proof.step(prove_dialler(SECRET, ME, theirs)))
    assert proof.proven == (2, 22)
    assert covered(cluster(old=old), BrokerId(1), BrokerId(2), SHOWN) == b""


def test_without_tls_a_registration_says_nothing_more() -> None:
    assert bound_by([PLAINTEXT]) == ()
