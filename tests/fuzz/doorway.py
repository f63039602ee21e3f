"""Bytes that no client sends, to all that a broker does before and after a login, in this process.

A case is one connection, one exchange of a mechanism, or one TLS handshake. The contract of each: it is answered, or
closed with one line in the log; nobody is let in who has not shown the password whole.
"""

from __future__ import annotations

import logging
import random
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

from attacks import Corpus, corpus_of, mutation
from sim_broker import SimBroker
from tests.fuzz.records import tls_records
from tests.fuzz.tokens import exchanges_of, hostile_token

from ottla.access.login import LoginStage
from ottla.access.mechanisms import scram
from ottla.access.mechanisms.base import PeerRefused
from ottla.access.mechanisms.scram import NUMBERS, ScramClient, keys_of, salted_password
from ottla.cluster.commands import EditScramKeys
from ottla.config.security import listener_security
from ottla.kernel.errors import ApiError
from ottla.wire.connection import ServerConnection
from ottla.wire.frame import FramePool, FrameReader, FrameTooLarge

ANONYMOUS = "User:ANONYMOUS"
USER, PASSWORD = "eve", "correct horse battery staple"
"""A user without any right."""
_MOST_UNPROVEN = 524_288
_SALT = bytes(range(20))
_SHARED = memoryview(bytearray(1 << 20))
_MAY_WAIT = frozenset({0, 1})
"""APIs without an answer at once: Produce without acks, and Fetch."""
_PATIENCE_MS = 400


class Wire:
    """A transport that keeps what is sent."""

    def __init__(self) -> None:
        self.sent = bytearray()
        self.unsent_bytes = 0

    def send(self, parts: list[Any]) -> None:
        for part in parts:
            self.sent += part

    def cork(self) -> None: ...

    def uncork(self) -> None: ...

    def close(self) -> None: ...


class Lines(logging.Handler):
    """The lines that a broker says in warning, and worse ones."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record)


@dataclass(slots=True)
class Doorway:
    """A broker whose one listener asks for a login, and gives its users no right."""

    place: SimBroker = field(default_factory=lambda: SimBroker(
        authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    ))  # fmt: skip
    lines: Lines = field(default_factory=Lines)
    offer: Any = None

    def __post_init__(self) -> None:
        jaas = "org.apache.kafka.common.security"
        texts = {
            "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "connection.failed.authentication.delay.ms": "0",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config":
                f'{jaas}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";',
            "listener.name.sasl_plaintext.plain.connections.max.reauth.ms": "3600000",
        }  # fmt: skip
        for name in ("scram-sha-256", "scram-sha-512"):
            texts[f"listener.name.sasl_plaintext.{name}.sasl.jaas.config"] = f"{jaas}.scram.ScramLoginModule required;"
        self.offer, problems = listener_security(texts, "SASL_PLAINTEXT")
        assert problems == []
        for number, name in NUMBERS.items():
            keys = keys_of(name, salted_password(name, PASSWORD, _SALT, 4096), _SALT, 4096)
            done = self.place.wait_for(_submit(self.place, EditScramKeys(USER, number, keys)))
            assert not isinstance(done, ApiError)
        logging.getLogger("ottla").addHandler(self.lines)

    def close(self) -> None:
        logging.getLogger("ottla").removeHandler(self.lines)

    @property
    def gate(self) -> Any:
        return self.place.here.node.gate


async def _submit(place: SimBroker, command: Any) -> Any:
    return await place.here.node.follow.submit(command)


class Visit:
    """One connection, fed as server/listener.py does."""

    def __init__(self, doorway: Doorway) -> None:
        self.doorway = doorway
        self.wire = Wire()
        self.reader = FrameReader(_SHARED, FramePool(64 << 20), _MOST_UNPROVEN)
        self.connection = ServerConnection(
            self.reader, self.wire, doorway.gate.serve, name="127.0.0.1:9092-127.0.0.1:1", peer_host="127.0.0.1",
            local_address=("127.0.0.1", 9092), listener="SASL_PLAINTEXT",
        )  # fmt: skip
        self.connection.login = doorway.gate.login(doorway.offer)
        self.sent = bytearray()
        self.refused = False
        """True where the listener itself ends the connection, for a frame too long."""

    def send(self, data: bytes) -> None:
        self.sent += data
        at = 0
        while at < len(data) and self._goes_on():
            target = self.reader.target()
            assert target is not None, "the pool is as large as all frames"
            count = min(len(target), len(data) - at)
            target[:count] = data[at : at + count]
            at += count
            self.reader.received(count)
            self._run()
        for _ in range(_PATIENCE_MS // 20):
            if self.connection.closed or len(list(self.answers())) >= self.frames():
                return
            self.doorway.place.loop.run_for(20)
            self.connection.drained()
            self._resume()

    def _goes_on(self) -> bool:
        """True once the connection reads on; False if it is closed or waits too long."""
        for _ in range(_PATIENCE_MS // 20):
            self._resume()
            if self.connection.closed or not self.connection.paused:
                return not self.connection.closed
            self.doorway.place.loop.run_for(20)
        return False

    def _resume(self) -> None:
        connection = self.connection
        if connection.closed or connection.held:
            return
        connection.paused = False
        if self.reader.parked_whole_frames:
            self._run()

    def _run(self) -> None:
        try:
            self.connection.run()
            self.connection.drained()
        except FrameTooLarge:
            self.refused = True
            self.connection.close()

    def answers(self) -> Iterator[bytes]:
        yield from _frames(self.wire.sent)

    def frames(self) -> int:
        return sum(1 for _ in _frames(self.sent))


def _frames(data: bytes | bytearray) -> Iterator[bytes]:
    at = 0
    while at + 4 <= len(data):
        (size,) = struct.unpack_from(">i", data, at)
        if size < 0 or at + 4 + size > len(data):
            return
        yield bytes(data[at + 4 : at + 4 + size])
        at += 4 + size


def framed(key: int, version: int, body: bytes, number: int = 7) -> bytes:
    """A request with a header of the older kind, as both of SASL's have; SaslAuthenticate 2 has one tag byte more."""
    head = struct.pack(">hhih", key, version, number, -1) + (b"\0" if (key, version) in {(36, 2)} else b"")
    return struct.pack(">i", len(head) + len(body)) + head + body


def handshake(mechanism: str, version: int = 1) -> bytes:
    return framed(17, version, struct.pack(">h", len(mechanism)) + mechanism.encode())


def token(data: bytes, version: int) -> bytes:
    if version == 2:
        size, out = len(data) + 1, bytearray()
        while size > 127:
            out.append(size & 127 | 128)
            size >>= 7
        return framed(36, 2, bytes([*out, size]) + data + b"\0")
    return framed(36, version, struct.pack(">i", len(data)) + data)


class Fault(AssertionError):
    """A case that breaks the contract."""


def before_login(corpus: Corpus) -> Callable[[Doorway, random.Random], str]:
    """Requests of every kind in any order, some of them broken, to a connection that has shown nothing."""

    def case(doorway: Doorway, chance: random.Random) -> str:
        visit = Visit(doorway)
        whole = True
        for _ in range(chance.randint(1, 4)):
            frame, is_whole = _opening(visit, corpus, chance)
            whole &= is_whole
            visit.send(frame)
            if visit.connection.closed:
                break
        judge(visit, whole=whole)
        return f"before login: {'closed' if visit.connection.closed else visit.connection.login.stage.name.lower()}"

    return case


def _opening(visit: Visit, corpus: Corpus, chance: random.Random) -> tuple[bytes, bool]:
    """A frame, and whether it is as a client would send it."""
    kind = chance.randrange(3 if not visit.sent else 9)
    if kind == 8:
        return chance.choice(
            [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\0\1\0", chance.randbytes(40), bytes(9)]
        ), False
    if kind == 7:
        return corpus.pick(chance)[2], False
    if kind in (0, 1):
        name = chance.choice(["PLAIN", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "OTTLA-PEER", "a\r\nb", ""])
        frame = handshake(name, chance.choice([0, 1, 1]))
    elif kind == 2:
        frame = framed(18, chance.randint(0, 3), chance.choice([b"", b"\0\2a\2b\0", chance.randbytes(5)]))
    else:
        data = hostile_token(chance, USER, PASSWORD) if chance.random() < 0.6 else f"\0{USER}\0{PASSWORD}".encode()
        raw = visit.connection.login.raw
        frame = struct.pack(">i", len(data)) + data if raw else token(data, chance.randint(0, 2))
    if chance.random() < 0.25:
        return mutation(frame, chance), False
    return frame, True


def scram_login(doorway: Doorway, chance: random.Random) -> str:
    """A login by SCRAM in which some of the tokens are broken on their way."""
    visit = Visit(doorway)
    name = chance.choice(["SCRAM-SHA-256", "SCRAM-SHA-512"])
    version = chance.randint(0, 1)
    visit.send(handshake(name, version))
    client = ScramClient(name, USER, chance.choice([PASSWORD, PASSWORD, "wrong"]), f"n{chance.random()}")
    right = client._password == PASSWORD
    said = client.first()
    for turn in range(2):
        sent = mutation(struct.pack(">i", len(said)) + said, chance)[4:] if chance.random() < 0.3 else said
        right &= sent == said
        visit.send(struct.pack(">i", len(sent)) + sent if version == 0 else token(sent, chance.randint(0, 2)))
        answered = list(visit.answers())
        if visit.connection.closed or len(answered) != turn + 2 or turn:
            break
        challenge = answered[-1] if version == 0 else answered[-1][answered[-1].find(b"r=") :].rstrip(b"\0")
        end = challenge.find(b",i=4096")
        try:
            said = client.step(challenge[: end + 7]) or b""
        except PeerRefused:  # the answer to a token that was broken
            break
    judge(visit, whole=True, may_be_in=right)
    return f"scram: {'in' if visit.connection.login.stage is LoginStage.PROVEN else 'out'}"


def without_rights(corpus: Corpus) -> Callable[[Doorway, random.Random], str]:
    """Requests of a user who may do nothing, whole and broken."""

    def case(doorway: Doorway, chance: random.Random) -> str:
        visit = Visit(doorway)
        login = f"\0{USER}\0{PASSWORD}".encode()
        visit.send(handshake("PLAIN"))
        visit.send(token(login, 1))
        if visit.connection.principal != f"User:{USER}":
            raise Fault("the right password lets nobody in")
        _api, _, frame = corpus.pick(chance)
        whole = chance.random() < 0.3
        visit.send(frame if whole else mutation(frame, chance))
        judge(visit, whole=False, may_be_in=True)
        return f"without rights: {'closed' if visit.connection.closed else 'answered'}"

    return case


def judge(visit: Visit, *, whole: bool, may_be_in: bool | None = None) -> None:
    """Hold a connection to the contract; `whole`: each of its frames is one that a client could send."""
    connection, lines = visit.connection, visit.doorway.lines.lines
    said = [record.getMessage() for record in lines]
    if any(record.levelno >= logging.ERROR or record.exc_info for record in lines):
        raise Fault(f"the broker's own fault: {said}")
    if any("\n" in line or "\x1b" in line or "\r" in line for line in said):
        raise Fault(f"a line of the log that is not one: {said}")
    ended = len(said) + visit.refused
    if connection.closed and ended != 1 and not (ended == 0 and _has_none_to_tell(visit)):
        raise Fault(f"closed with {ended} lines: {said}")
    shown = PASSWORD.encode() in visit.sent if may_be_in is None else may_be_in
    if connection.principal not in (ANONYMOUS, f"User:{USER}") or (connection.principal != ANONYMOUS and not shown):
        raise Fault(f"{connection.principal} is in")
    missing = visit.frames() - sum(1 for _ in visit.answers())
    key = max((struct.unpack_from(">h", each)[0] for each in _frames(visit.sent) if len(each) > 1), default=-1)
    if not connection.closed and missing > 0 and not (key in _MAY_WAIT or _waits(visit)):
        raise Fault(f"{missing} requests without an answer, and the connection is open")
    if whole and connection.closed and not said and not visit.refused:
        raise Fault("closed without a word")


def _has_none_to_tell(visit: Visit) -> bool:
    """True if the last request is a Produce: without acks its refusal is the end of the connection, as with Kafka."""
    return [each for each in _frames(visit.sent) if each][-1].startswith(b"\0\0")


def _waits(visit: Visit) -> bool:
    """True where one of the requests is a Produce without acks or a Fetch: these may have no answer."""
    return any(struct.unpack_from(">h", each)[0] in _MAY_WAIT for each in _frames(visit.sent) if len(each) > 1)


def run(seed: int, cases: int, *, examples: int = 2, tell: Callable[[str], None] = lambda _: None) -> Counter[str]:
    """So many cases from one seed; Fault, or what else a case raises, with its number."""
    corpus = corpus_of(seed, examples)
    doorway = Doorway()
    kinds = [before_login(corpus)] * 4 + [without_rights(corpus)] * 3 + [scram_login, tls_records, *exchanges_of()]
    outcomes: Counter[str] = Counter()
    hashed, scram.salted_password = scram.salted_password, cache(scram.salted_password)
    try:
        for number in range(cases):
            chance = random.Random(f"{seed}-{number}")
            doorway.lines.lines.clear()
            try:
                outcomes[kinds[number % len(kinds)](doorway, chance)] += 1
            except Exception as fault:
                raise Fault(f"seed {seed}, case {number}: {type(fault).__name__}: {fault}") from fault
            if number % 20_000 == 19_999:
                tell(f"seed {seed}: {number + 1:,} cases")
    finally:
        scram.salted_password = hashed
        doorway.close()
    return outcomes


def run_side_by_side(seed: int, cases: int, jobs: int, tell: Callable[[str], None]) -> Counter[str]:
    """The cases in several processes, with the seeds that follow."""
    if jobs == 1:
        return run(seed, cases, tell=tell)
    with ProcessPoolExecutor(jobs) as pool:
        parts = pool.map(partial(run, tell=tell), range(seed, seed + jobs), [cases // jobs] * jobs)
        return sum(parts, Counter())
