"""Attacks of bad clients. Each takes the broker's address and a seeded random source, and ends soon.

Valid requests come from tests/messages/building.py. Counts of partitions to create are kept small: a topic of many
partitions is an expensive request, not a malformed one.
"""

from __future__ import annotations

import random
import socket
import ssl
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

from building import messages
from hypothesis import HealthCheck, Phase, given, seed, settings
from raw_connection import CLIENT_ID, Ended, RawConnection, frame

from ottla.schema.codec import MalformedMessage
from ottla.schema.message import schema_of
from ottla.schema.types import Array, Fixed, Text
from ottla.schema.varints import MOST_ELEMENTS
from ottla.wire.apis import APIS, Api

TARGET = "topic-1"
"""A topic that exists: building.py sometimes uses its name."""
_MOST_PARTITIONS = 4
Attack = Callable[[str, random.Random], str]


class Corpus:
    """Valid frames of every API and version that the broker serves, made from one seed."""

    def __init__(self, number: int, *, examples: int) -> None:
        self.frames: list[tuple[Api, int, bytes]] = []
        for api in APIS.values():
            for version in range(api.served.first, api.served.last + 1):
                for message in made(api.request, version, number, examples):
                    tame(message)
                    self.frames.append((api, version, frame(api.key, version, message)))

    def pick(self, chance: random.Random) -> tuple[Api, int, bytes]:
        return chance.choice(self.frames)


@cache
def corpus_of(number: int, examples: int) -> Corpus:
    """The corpus of a seed, made once."""
    return Corpus(number, examples=examples)


def made(cls: type, version: int, number: int, examples: int) -> list[Any]:
    """Messages of one class and version, the same for each seed."""
    found: list[Any] = []

    @seed(number)
    @settings(
        max_examples=examples, database=None, deadline=None, phases=[Phase.generate], derandomize=False,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(messages(cls, version))
    def collect(message: Any) -> None:
        found.append(message)

    collect()
    return found


def tame(message: Any) -> None:
    """Limit a request to few new partitions and short waits."""
    for topic in getattr(message, "topics", None) or ():
        for name in ("num_partitions", "count"):
            if getattr(topic, name, 0) > _MOST_PARTITIONS:
                setattr(topic, name, _MOST_PARTITIONS)


def valid(corpus: Corpus) -> Attack:
    def attack(bootstrap: str, chance: random.Random) -> str:
        """Send well-formed requests with senseless contents, one by one."""
        api, version, raw = corpus.pick(chance)
        tell(bootstrap, raw, patience=0.3)
        return f"valid {api.name} v{version}"

    return attack


def mutated(corpus: Corpus) -> Attack:
    def attack(bootstrap: str, chance: random.Random) -> str:
        """Send a request with some bytes changed, lost or doubled, or with another count inside."""
        api, version, raw = corpus.pick(chance)
        for _ in range(20):
            tell(bootstrap, mutation(raw, chance), patience=0.02)
        return f"mutated {api.name} v{version}"

    return attack


def mutation(raw: bytes, chance: random.Random) -> bytes:
    body = bytearray(raw[4:] or b"\0")
    kind = chance.randrange(6)
    at = chance.randrange(8, len(body)) if len(body) > 8 else 0
    if kind == 0:
        for _ in range(chance.randint(1, 8)):
            body[chance.randrange(len(body))] = chance.randrange(256)
    elif kind == 1:
        del body[at:]
    elif kind == 2:
        body[at : at + 4] = chance.choice([b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\0\x10\0\0"])
    elif kind == 3:
        body[at : at + 1] = chance.choice(
            [b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\xff\xff", b"\x80\x80\x04", b"\0"]
        )
    elif kind == 4:
        body[at:at] = chance.randbytes(chance.randint(1, 40))
    else:
        body[at:at] = body[at : at + chance.randint(1, 60)]
    length = len(body) if chance.random() < 0.8 else max(-5, len(body) + chance.randint(-20, 20))
    return struct.pack(">i", length) + bytes(body)


def session(corpus: Corpus) -> Attack:
    def attack(bootstrap: str, chance: random.Random) -> str:
        """Send many requests on one connection without waiting, whole or in pieces; read the answers or not."""
        raw = b"".join(corpus.pick(chance)[2] for _ in range(chance.randint(2, 40)))
        with RawConnection(bootstrap, timeout=0.2) as connection:
            try:
                for at in range(0, len(raw), step := chance.choice([1 << 20, 1000, 7]) if len(raw) < 4000 else 1 << 20):
                    connection.send(raw[at : at + step])
                if chance.random() < 0.5:
                    drain(connection)
            except Ended:
                pass
        return "session"

    return attack


def garbage(bootstrap: str, chance: random.Random) -> str:
    """Send other protocols, and noise."""
    noise = [
        b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + chance.randbytes(500),
        chance.randbytes(chance.randint(1, 5000)), b"\0" * 4000, b"",
    ]  # fmt: skip
    tell(bootstrap, chance.choice(noise), patience=0.05)
    return "garbage"


def stranger(corpus: Corpus, secured: str) -> Attack:
    def attack(_bootstrap: str, chance: random.Random) -> str:
        """Come to the listener that asks for a login: with noise, with TLS that stops, or over TLS without a login."""
        host, _, port = secured.rpartition(":")
        raw = corpus.pick(chance)[2]
        kind = chance.randrange(4)
        with suppress(OSError), socket.create_connection((host, int(port)), timeout=5.0) as sock:
            if kind == 0:
                sock.sendall(chance.choice([raw, b"GET / HTTP/1.1\r\n\r\n", chance.randbytes(300)]))
                sock.settimeout(0.05)
                sock.recv(100)
            elif kind == 1:
                sock.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + chance.randbytes(chance.randint(0, 90)))
            else:
                context = ssl.create_default_context()
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
                with context.wrap_socket(sock) as tls:
                    tls.sendall(mutation(raw, chance) if kind == 2 else raw)
                    tls.settimeout(0.05)
                    tls.recv(100)
        return "stranger"

    return attack


def huge_lengths(bootstrap: str, chance: random.Random) -> str:
    """Announce huge frames and send nothing: the broker must not allocate for an announced length."""
    lengths = [0x7FFFFFFF, -1, -0x80000000, 0, 1, 7, 104857600, 104857601, 90 << 20]
    connections = [RawConnection(bootstrap, timeout=0.05) for _ in range(12)]
    for connection in connections:
        promise = struct.pack(">ihhi", chance.choice(lengths), chance.choice([0, 1, 3, 18]), 3, 1)
        with suppress(Ended):
            connection.send(promise + bytes(3000))
    time.sleep(0.05)
    for connection in connections:
        connection.close()
    return "huge lengths"


def slow_loris(corpus: Corpus) -> Attack:
    def attack(bootstrap: str, chance: random.Random) -> str:
        """Open forty connections that send one byte at a time and never finish."""
        connections = [RawConnection(bootstrap, timeout=0.2) for _ in range(40)]
        frames = [corpus.pick(chance)[2] for _ in connections]
        for at in range(12):
            for connection, raw in zip(connections, frames, strict=True):
                with suppress(Ended):
                    connection.send(raw[at : at + 1])
            time.sleep(0.01)
        for connection in connections:
            connection.close()
        return "slow loris"

    return attack


def half_closed(corpus: Corpus) -> Attack:
    def attack(bootstrap: str, chance: random.Random) -> str:
        """Close the sending side, or reset the whole connection, with requests under way."""
        with RawConnection(bootstrap, timeout=0.2) as connection:
            try:
                for _ in range(chance.randint(1, 10)):
                    connection.send(corpus.pick(chance)[2])
                if chance.random() < 0.5:
                    connection.socket.shutdown(socket.SHUT_WR)
                    drain(connection)
                else:
                    linger = struct.pack("ii", 1, 0)
                    connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            except (Ended, OSError):
                pass
        return "half closed"

    return attack


def never_reads(bootstrap: str, chance: random.Random) -> str:
    """Send large requests again and again, and read no answer."""
    everything = struct.pack(">ihhih", 0, 3, 1, 7, len(CLIENT_ID)) + CLIENT_ID + b"\xff\xff\xff\xff"
    everything = struct.pack(">i", len(everything) - 4) + everything[4:]
    with RawConnection(bootstrap, timeout=0.3) as connection:
        try:
            for _ in range(200):
                connection.send(everything * 100)
        except (Ended, TimeoutError):
            pass
        time.sleep(chance.random() * 0.2)
    return "never reads"


def bomb(bootstrap: str, chance: random.Random) -> str:
    """Send a request with as many elements as one may have, all in one of its arrays."""
    api = chance.choice([api for api in APIS.values() if any(arrays_of(api.request, api.served.last))])
    version = chance.randint(api.served.first, api.served.last)
    fields = arrays_of(api.request, version)
    if fields:
        field = chance.choice(fields)
        message = api.request()
        setattr(message, field.name, [element(field.kind.element, number) for number in range(MOST_ELEMENTS - 1)])
        if hasattr(message, "allow_auto_topic_creation"):
            message.allow_auto_topic_creation = False
        for topic in getattr(message, "topics", None) or ():
            if api.name in ("CreateTopics", "CreatePartitions"):
                topic.name = "not/legal"
        try:
            tell(bootstrap, frame(api.key, version, message), patience=5.0)
        except MalformedMessage:
            return "bomb that the version cannot carry"
    return f"bomb {api.name} v{version}"


def arrays_of(cls: type, version: int) -> list[Any]:
    return [each for each in schema_of(cls).fields if isinstance(each.kind, Array) and each.is_in(version)]


def element(kind: Any, number: int) -> Any:
    if isinstance(kind, Text):
        return f"e{number}"
    if isinstance(kind, Fixed):
        return bytes(16) if kind.code == "16s" else number
    made_one = kind()
    for each in schema_of(kind).fields:
        if isinstance(each.kind, Text) and not each.is_nullable(0):
            setattr(made_one, each.name, f"e{number}")
            break
    return made_one


def tell(bootstrap: str, raw: bytes, *, patience: float) -> None:
    """Send, and wait up to `patience` seconds for an answer or the end."""
    with RawConnection(bootstrap, timeout=5.0) as connection:
        try:
            connection.send(raw)
            connection.socket.settimeout(patience)
            connection.receive()
        except (Ended, TimeoutError):
            pass


def drain(connection: RawConnection) -> None:
    try:
        while True:
            connection.receive()
    except (Ended, TimeoutError):
        pass


def all_attacks(corpus: Corpus, secured: str) -> list[Attack]:
    return [
        valid(corpus), valid(corpus), valid(corpus), mutated(corpus), mutated(corpus), mutated(corpus), session(corpus),
        garbage, huge_lengths, slow_loris(corpus), half_closed(corpus), never_reads, bomb, bomb,
        stranger(corpus, secured), stranger(corpus, secured),
    ]  # fmt: skip
