"""The proof by which brokers of one cluster know one another: the mechanism OTTLA-PEER, both sides, without a socket.

The dialling broker sends its identity and a nonce; the broker that was dialled answers with its own and a proof; then
the dialler proves itself. A proof is an HMAC-SHA256, keyed by the cluster's secret, over who proves, both identities
(broker id and broker epoch) and both nonces: none can be replayed, reflected, or used towards another incarnation.
Over TLS it is over the hash of the dialled broker's certificate, too (`bound`): none can be passed on by somebody who
shows the dialler a certificate of its own.
"""

from __future__ import annotations

import hmac
from struct import Struct
from typing import NamedTuple

MECHANISM = "OTTLA-PEER"
NONCE_BYTES = 32
PROOF_BYTES = 32
_IDENTITY = Struct(">iq")
_HELLO_BYTES = _IDENTITY.size + NONCE_BYTES


class NotProven(Exception):
    """The other side is not the expected broker, or sent bytes that are not a step of a proof."""


class Hello(NamedTuple):
    """The identity of the sender, and a nonce of its own."""

    broker_id: int
    broker_epoch: int
    nonce: bytes

    def encode(self) -> bytes:
        return _IDENTITY.pack(self.broker_id, self.broker_epoch) + self.nonce


def decode_hello(data: bytes) -> Hello:
    if len(data) != _HELLO_BYTES:
        raise NotProven(f"a first step of {len(data)} bytes")
    broker_id, broker_epoch = _IDENTITY.unpack_from(data)
    return Hello(broker_id, broker_epoch, bytes(data[_IDENTITY.size :]))


def answer_hello(secret: bytes, dialler: Hello, dialled: Hello, bound: bytes = b"") -> bytes:
    """The dialled broker's answer: its own hello, and the proof that it knows the secret."""
    return dialled.encode() + _proof(secret, b"dialled", dialler, dialled, bound)


def check_answer(secret: bytes, dialler: Hello, answer: bytes, bound: bytes = b"") -> Hello:
    """The dialled broker's hello in its answer; NotProven if its proof is wrong."""
    if len(answer) != _HELLO_BYTES + PROOF_BYTES:
        raise NotProven(f"an answer of {len(answer)} bytes")
    dialled = decode_hello(answer[:_HELLO_BYTES])
    _check(secret, b"dialled", dialler, dialled, answer[_HELLO_BYTES:], bound)
    return dialled


def prove_dialler(secret: bytes, dialler: Hello, dialled: Hello, bound: bytes = b"") -> bytes:
    """The last step: the dialler's own proof."""
    return _proof(secret, b"dialler", dialler, dialled, bound)


def check_dialler(secret: bytes, dialler: Hello, dialled: Hello, proof: bytes, bound: bytes = b"") -> None:
    """Check the dialler's proof; NotProven if it is wrong."""
    _check(secret, b"dialler", dialler, dialled, proof, bound)


def _proof(secret: bytes, side: bytes, dialler: Hello, dialled: Hello, bound: bytes) -> bytes:
    proven = MECHANISM.encode() + b"\0" + side + b"\0" + dialler.encode() + dialled.encode() + bound
    return hmac.digest(secret, proven, "sha256")


def _check(secret: bytes, side: bytes, dialler: Hello, dialled: Hello, proof: bytes, bound: bytes) -> None:
    if not secret:
        raise NotProven("there is no secret yet")
    if not hmac.compare_digest(_proof(secret, side, dialler, dialled, bound), bytes(proof)):
        raise NotProven("the proof is wrong" + (", or another certificate was shown on the way" if bound else ""))
