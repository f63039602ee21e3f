"""Two brokers prove to each other that they know the cluster's secret; others cannot, and no proof works twice."""

from __future__ import annotations

import pytest

from ottla.wire.sasl import Hello, NotProven, answer_hello, check_answer, check_dialler, decode_hello, prove_dialler

SECRET = b"s" * 32
DIALLER = Hello(1, 11, b"a" * 32)
DIALLED = Hello(2, 22, b"b" * 32)


def test_both_sides_prove_themselves():
    dialler = decode_hello(DIALLER.encode())
    assert dialler == DIALLER
    theirs = check_answer(SECRET, DIALLER, answer_hello(SECRET, dialler, DIALLED))
    assert theirs == DIALLED
    check_dialler(SECRET, dialler, DIALLED, prove_dialler(SECRET, DIALLER, theirs))


def test_another_secret_proves_nothing_on_either_side():
    with pytest.raises(NotProven):
        check_answer(SECRET, DIALLER, answer_hello(b"x" * 32, DIALLER, DIALLED))
    with pytest.raises(NotProven):
        check_dialler(SECRET, DIALLER, DIALLED, prove_dialler(b"x" * 32, DIALLER, DIALLED))


def test_no_secret_is_no_secret_to_share():
    with pytest.raises(NotProven):
        check_dialler(b"", DIALLER, DIALLED, prove_dialler(b"", DIALLER, DIALLED))


@pytest.mark.parametrize(
    "other",
    [DIALLER._replace(broker_id=3), DIALLER._replace(broker_epoch=12), DIALLER._replace(nonce=b"c" * 32)],
)
def test_a_proof_is_of_one_broker_in_one_incarnation_in_one_conversation(other):
    proof = prove_dialler(SECRET, DIALLER, DIALLED)
    with pytest.raises(NotProven):
        check_dialler(SECRET, other, DIALLED, proof)


def test_the_answer_of_the_dialled_sent_back_proves_nothing():
    answer = answer_hello(SECRET, DIALLER, DIALLED)
    with pytest.raises(NotProven):
        check_dialler(SECRET, DIALLER, DIALLED, answer[-32:])


@pytest.mark.parametrize("data", [b"", b"x", DIALLER.encode() + b"x"])
def test_what_is_no_step_is_refused(data):
    with pytest.raises(NotProven):
        decode_hello(data)
    with pytest.raises(NotProven):
        check_answer(SECRET, DIALLER, data)


def test_a_proof_over_tls_is_worth_nothing_where_another_certificate_is_shown():
    """Somebody between the two shows the dialler its own certificate, and passes each step on."""
    real, shown = b"r" * 32, b"m" * 32
    with pytest.raises(NotProven, match="certificate"):
        check_answer(SECRET, DIALLER, answer_hello(SECRET, DIALLER, DIALLED, real), shown)
    with pytest.raises(NotProven, match="certificate"):
        check_dialler(SECRET, DIALLER, DIALLED, prove_dialler(SECRET, DIALLER, DIALLED, shown), real)
    theirs = check_answer(SECRET, DIALLER, answer_hello(SECRET, DIALLER, DIALLED, real), real)
    check_dialler(SECRET, DIALLER, DIALLED, prove_dialler(SECRET, DIALLER, theirs, real), real)


def test_a_proof_over_a_certificate_is_not_one_without_and_the_other_way_round():
    with pytest.raises(NotProven):
        check_answer(SECRET, DIALLER, answer_hello(SECRET, DIALLER, DIALLED, b"r" * 32))
    with pytest.raises(NotProven):
        check_answer(SECRET, DIALLER, answer_hello(SECRET, DIALLER, DIALLED), b"r" * 32)
