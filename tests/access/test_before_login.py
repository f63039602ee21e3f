"""Those who have not logged in: they cost little memory, others are served meanwhile, and each leaves one line."""

from __future__ import annotations

import contextlib
import logging
import re
import socket
import struct
import time
import tracemalloc
from collections.abc import Iterator

import pytest
from tests.access.secured import Raw, Secured

from ottla.server import listener as listener_module
from ottla.server import unproven

FAKE = "a\r\n2026-01-01 ERROR all is lost \x1b[31m\x07"
MOST_TAGS = b"\x80\xda\xc4\x09"
"""Twenty million, as the count of tagged fields."""
CAP = 524_288
"""`sasl.server.max.receive.size`."""


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    patch = pytest.MonkeyPatch()
    patch.setattr(listener_module, "_SWEEP_S", 0.05)
    one = Secured(tmp_path_factory.mktemp("secured"))
    with one.broker:
        yield one
    patch.undo()


def log_in(raw: Raw) -> None:
    raw.handshake("PLAIN")
    assert raw.token(b"\0bob\0b") == 0


def the_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    assert not [record for record in caplog.records if record.exc_info]
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def text(said: str) -> bytes:
    return struct.pack(">h", len(said.encode())) + said.encode()


@pytest.mark.parametrize("where", ["mechanism", "user of PLAIN", "user of SCRAM", "client id"])
def test_a_name_cannot_write_a_line_of_its_own_into_the_log(
    secured: Secured, caplog: pytest.LogCaptureFixture, where: str
) -> None:
    with secured.connected() as raw:
        if where == "mechanism":
            raw.ask(17, 1, text(FAKE))
        elif where == "user of PLAIN":
            raw.handshake("PLAIN")
            raw.token(f"\0{FAKE}\0x".encode())
        elif where == "user of SCRAM":
            raw.handshake("SCRAM-SHA-256")
            raw.token(f"n,,n={FAKE},r=abc".encode())
            raw.token(b"c=biws,r=abc,p=AAAA")
        else:
            raw.send(struct.pack(">hhi", 3, 1, 7) + text(FAKE) + struct.pack(">i", 0))
        assert raw.is_closed()
    (line,) = the_lines(caplog)
    assert not re.search(r"[\x00-\x1f\x7f]", line)


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("length", [2**31 - 1, -1, -(2**31), CAP + 1])
def test_a_length_inside_a_token_takes_no_memory(
    secured: Secured, caplog: pytest.LogCaptureFixture, version: int, length: int
) -> None:
    body = struct.pack(">i", length) if version < 2 else b"\0\xff\xff\xff\xff\x0f"
    with limited_memory(), secured.connected() as raw:
        raw.handshake("PLAIN")
        assert raw.ask(36, version, body + bytes(10)) is None
    (line,) = the_lines(caplog)
    assert "sent an invalid request" in line


@pytest.mark.parametrize("place", ["header", "body", "many small ones"])
def test_very_many_tagged_fields_take_no_memory(secured: Secured, caplog: pytest.LogCaptureFixture, place: str) -> None:
    before = {"header": MOST_TAGS, "body": b"\0\1" + MOST_TAGS, "many small ones": b"\0\1" + b"\xa0\x8d\x06"}[place]
    tags = b"".join(bytes([number & 127 | 128, number >> 7 & 127 | 128, number >> 14, 0]) for number in range(100_000))
    with secured.connected() as raw:
        raw.handshake("PLAIN")
        with limited_memory():
            raw.send(struct.pack(">hhih", 36, 2, 7, -1) + before + tags)
            assert raw.is_closed()
    assert len(the_lines(caplog)) == 1


@contextlib.contextmanager
def limited_memory() -> Iterator[None]:
    """The block takes less than two requests of the largest size before a login, and what decodes them."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < 20 * CAP
    finally:
        tracemalloc.stop()


def test_one_who_drips_its_login_is_closed_in_time_and_others_are_served(
    secured: Secured, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with contextlib.ExitStack() as opened:
        inside = opened.enter_context(secured.connected())
        log_in(inside)
        monkeypatch.setattr(unproven, "_WITHIN_S", 0.3)
        dripping = [opened.enter_context(secured.connected(name)) for name in ("SASL_PLAINTEXT", "SASL_SSL", "SSL")]
        deadline, at = time.monotonic() + 60, 0
        while sum("has not shown in" in line for line in the_lines(caplog)) < len(dripping):
            assert time.monotonic() < deadline
            for raw, said in zip(dripping, (b"\0\0\0\x7f", b"\x16\x03\x01\x7f", b"\x16\x03\x01\x7f"), strict=True):
                with contextlib.suppress(OSError):
                    raw.socket.sendall(said[at : at + 1])
            at += 1
            time.sleep(0.05)
        assert all(raw.is_closed() for raw in dripping)
        assert inside.ask(3, 1, struct.pack(">i", 0)) is not None
    assert len(the_lines(caplog)) == len(dripping)


def test_the_oldest_who_has_not_logged_in_makes_room_for_the_next(
    secured: Secured, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unproven, "_MOST", 3)
    with contextlib.ExitStack() as opened:
        inside = opened.enter_context(secured.connected())
        log_in(inside)
        strangers = [opened.enter_context(secured.connected()) for _ in range(7)]
        assert all(raw.is_closed() for raw in strangers[:4])
        for raw in strangers[4:]:
            log_in(raw)
        assert inside.ask(3, 1, struct.pack(">i", 0)) is not None
    lines = the_lines(caplog)
    assert len(lines) == 4
    assert all("closed, 3 others have not shown either who they are" in line for line in lines)


def test_many_who_stop_in_the_middle_of_tls_keep_nobody_from_logging_in(
    secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unproven, "_MOST", 10)
    stalled = []
    for number in range(60):
        sock = socket.create_connection(secured.address("SASL_SSL"), timeout=20)
        sock.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
        stalled.append(sock)
        if number % 20 == 19:
            with secured.connected() as raw:
                log_in(raw)
    for sock in stalled:
        sock.close()
