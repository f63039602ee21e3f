"""TLS records that are broken on their way, to the broker's side of a handshake and to what follows it."""

from __future__ import annotations

import contextlib
import random
import ssl
import struct
from functools import cache
from typing import Any

from tests.access.certificates import authority

from ottla.server.tls_socket import SCRATCH_BYTES, TlsSocket
from ottla.tls.contexts import server_context
from ottla.tls.settings import tls_settings

_SCRATCH = memoryview(bytearray(SCRATCH_BYTES))
_TARGET = memoryview(bytearray(64 << 10))
_SAID = b"what the client says " * 20


class Line:
    """A socket whose other end is this test."""

    def __init__(self) -> None:
        self.coming = bytearray()
        self.gone = bytearray()
        self.ended = False

    def fileno(self) -> int:
        return -1

    def recv_into(self, target: memoryview) -> int:
        if not self.coming and not self.ended:
            raise BlockingIOError
        count = min(len(target), len(self.coming))
        target[:count] = self.coming[:count]
        del self.coming[:count]
        return count

    def send(self, data: memoryview) -> int:
        self.gone += data
        return len(data)

    def close(self) -> None: ...


@cache
def contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """The broker's context and a client's."""
    signer = authority()
    broker = signer.sign("broker")
    settings, problems = tls_settings(
        {"ssl.keystore.key": broker.key_pem(), "ssl.keystore.certificate.chain": broker.certificate_pem}
    )
    assert not problems
    return server_context(settings), ssl.create_default_context(cadata=signer.certificate_pem)


def tls_records(_doorway: Any, chance: random.Random) -> str:
    """One connection: nothing but an OSError ends it, and no byte is read that the client did not say."""
    ours, theirs = contexts()
    line, shaken = Line(), []
    tls = TlsSocket(line, lambda: ours, _SCRATCH, lambda: True, lambda: shaken.append(True))  # type: ignore[arg-type]
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = theirs.wrap_bio(to_client, to_server, server_hostname="localhost")
    got, broken_at = bytearray(), chance.choice([0, 0, 0, 0, 1, 2, 2, 3])
    for turn in range(4):
        if turn < 2:
            _tried(client.do_handshake)
        else:
            _tried(lambda: client.write(_SAID))
        flight = to_server.read()
        line.coming += _harmed(flight, chance) if turn == broken_at else flight
        line.ended = turn == 3
        try:
            while count := tls.recv_into(_TARGET):
                got += _TARGET[:count]
        except BlockingIOError:
            pass
        except OSError:
            tls.close()
            return "tls: refused"
        to_client.write(bytes(line.gone))
        line.gone.clear()
    tls.close()
    if not (_SAID * 2).startswith(bytes(got)) or (got and not shaken):
        raise AssertionError(f"{len(got)} bytes that the client did not say")
    return f"tls: {'ended' if shaken else 'waits'}"


def _tried(step: Any) -> None:
    with contextlib.suppress(ssl.SSLError, ValueError):
        step()


def _harmed(flight: bytes, chance: random.Random) -> bytes:
    """Records with other types, versions, lengths or bytes; more of them, fewer of them, in other pieces."""
    out = bytearray(flight)
    kind = chance.randrange(8)
    if kind == 0 or not out:
        return (
            struct.pack(
                ">BHH", chance.randrange(256), chance.choice([0x301, 0x303, 0x304, 0]), chance.randrange(1 << 16)
            )
            + flight
        )
    if kind == 1:
        out[0] = chance.choice([20, 21, 22, 23, 24, 0, 128, 255])
    elif kind == 2 and len(out) > 5:
        out[3:5] = struct.pack(">H", chance.choice([0, 1, 16384, 16385, 18432, 65535]))
    elif kind == 3:
        del out[chance.randrange(len(out)) :]
    elif kind == 4:
        out[0:0] = struct.pack(">BHHBB", 21, 0x303, 2, chance.choice([1, 2]), chance.randrange(120)) * chance.randint(
            1, 9
        )
    elif kind == 5:
        out[0:0] = struct.pack(">BHHB", 20, 0x303, 1, 1) * chance.randint(1, 60)
    elif kind == 6:
        out *= 2
    else:
        for _ in range(chance.randint(1, 6)):
            out[chance.randrange(len(out))] = chance.randrange(256)
    return bytes(out)
