"""Keys and certificates in all the forms that people have them, and TLS over a socket that takes them bit by bit."""

from __future__ import annotations

import contextlib
import ctypes
import ctypes.util
import hashlib
import random
import socket
import ssl
import subprocess
import threading
from pathlib import Path

import pytest
from tests.access.certificates import Authority, authority

from ottla.server.tls_socket import TlsSocket
from ottla.tls.contexts import FollowedContext, client_context, server_context
from ottla.tls.settings import TlsSettings, tls_settings
from ottla.tls.stores import StoreUnreadable


@pytest.fixture(scope="module")
def signer() -> Authority:
    return authority()


def settings(**texts: str) -> TlsSettings:
    made, problems = tls_settings({"ssl." + name.replace("_", "."): text for name, text in texts.items()})
    assert problems == []
    return made


def shake(server: ssl.SSLContext, client: ssl.SSLContext, host: str = "localhost") -> ssl.SSLObject:
    """The client's end of a handshake in memory."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(to_client, to_server, server_hostname=host)
    theirs = server.wrap_bio(to_server, to_client, server_side=True)
    done = [False, False]
    while not all(done):
        for at, side in enumerate((ours, theirs)):
            try:
                side.do_handshake()
                done[at] = True
            except ssl.SSLWantReadError:
                pass
    return ours


def test_a_key_is_read_from_pem_and_pkcs12_and_from_the_options_themselves(signer: Authority, tmp_path: Path) -> None:
    broker = signer.sign("broker")
    client = client_context(settings(truststore_certificates=signer.certificate_pem))
    ways = (
        {"keystore_location": broker.file(tmp_path)},
        {"keystore_location": broker.store(tmp_path, "pw"), "keystore_password": "pw", "keystore_type": "PKCS12"},
        {
            "keystore_location": broker.store(tmp_path, "pw", "key.jks"),
            "keystore_password": "pw",
            "keystore_type": "JKS",
        },
        {
            "keystore_key": broker.key_pem(),
            "keystore_certificate_chain": broker.certificate_pem,
            "keystore_type": "PEM",
        },
        {
            "keystore_key": broker.key_pem("pw"),
            "keystore_certificate_chain": broker.certificate_pem,
            "key_password": "pw",
        },
    )
    for way in ways:
        server = server_context(settings(**way))
        shaken = shake(server, client)
        assert shaken.version() == "TLSv1.3"
        assert hashlib.sha256(shaken.getpeercert(binary_form=True) or b"").digest() == server.certificate_hash


def test_a_client_refuses_a_broker_by_another_name_unless_told_not_to_look(signer: Authority, tmp_path: Path) -> None:
    server = server_context(settings(keystore_location=signer.sign("broker").file(tmp_path)))
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(server, client_context(settings(truststore_certificates=signer.certificate_pem)), "elsewhere.example")
    lax = settings(truststore_certificates=signer.certificate_pem, endpoint_identification_algorithm="")
    shake(server, client_context(lax), "elsewhere.example")
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(server, client_context(settings(truststore_certificates=authority("other").certificate_pem)))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read"),
        (b"", "neither PEM nor PKCS12"),
        (b"\xfe\xed\xfe\xed" + bytes(20), "keytool -importkeystore"),
        (b"\x30\x82" + bytes(20), "its password is another, or it is damaged"),
        (b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n", "no private key"),
        (b"-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----\n", "no certificate"),
    ],
)
def test_a_keystore_that_is_none_is_refused_with_the_reason(tmp_path: Path, content: bytes | None, said: str) -> None:
    path = tmp_path / "store"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(StoreUnreadable, match=said):
        server_context(settings(keystore_location=str(path), keystore_password="pw"))


def test_a_wrong_password_and_a_key_of_another_certificate_are_told(signer: Authority, tmp_path: Path) -> None:
    one, other = signer.sign("one"), signer.sign("other")
    with pytest.raises(StoreUnreadable, match="password is another"):
        server_context(settings(keystore_location=one.store(tmp_path, "pw"), keystore_password="no"))
    with pytest.raises(StoreUnreadable, match="do not belong together"):
        server_context(settings(keystore_key=one.key_pem(), keystore_certificate_chain=other.certificate_pem))
    with pytest.raises(StoreUnreadable, match=r"ssl\.truststore\.location"):
        server_context(settings(keystore_location=one.file(tmp_path), client_auth="required"))


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ({"ssl.client.auth": "maybe"}, "ssl.client.auth"),
        ({"ssl.enabled.protocols": "TLSv1.1,TLSv1.3"}, "TLSv1.1"),
        ({"ssl.keystore.type": "BKS"}, "BKS"),
        ({"ssl.keystore.key": "x"}, "belong together"),
        ({"ssl.truststore.location": "x", "ssl.truststore.certificates": "y"}, "both given"),
        ({"ssl.endpoint.identification.algorithm": "LDAPS"}, "https or empty"),
    ],
)
def test_options_that_cannot_be_are_told(texts: dict[str, str], said: str) -> None:
    assert [said in problem for problem in tls_settings(texts)[1]] == [True]


def test_a_context_follows_its_file_and_keeps_the_old_one_where_the_new_is_none(
    signer: Authority, tmp_path: Path
) -> None:
    path = Path(signer.sign("first").file(tmp_path))
    complaints: list[str] = []
    followed = FollowedContext(settings(keystore_location=str(path)), server_context, complaints.append)
    first = followed.context
    assert not followed.follow()
    signer.sign("second").file(tmp_path)
    assert followed.follow()
    second = followed.context
    assert second is not first
    path.write_text("broken")
    assert not followed.follow()
    assert followed.context is second
    assert not followed.follow(), "a file is complained of once"
    assert len(complaints) == 1


def test_bytes_come_whole_and_in_order_however_the_socket_takes_and_gives_them(
    signer: Authority, tmp_path: Path
) -> None:
    context = server_context(settings(keystore_location=signer.sign("broker").file(tmp_path)))
    client = client_context(settings(truststore_certificates=signer.certificate_pem))
    randomness = random.Random(7)
    sent_there = randomness.randbytes(700_000)
    there, here = socket.socketpair()
    here.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    here.setblocking(False)
    back: list[bytes] = []

    def talk() -> None:
        with client.wrap_socket(there, server_hostname="localhost") as tls:
            tls.sendall(sent_there)
            while more := tls.recv(1 << 16):
                back.append(more)

    thread = threading.Thread(target=talk)
    thread.start()
    shaken: list[bool] = []
    tls = TlsSocket(here, lambda: context, memoryview(bytearray(1 << 16)), lambda: True, lambda: shaken.append(True))
    got, target = bytearray(), memoryview(bytearray(100_000))
    while len(got) < len(sent_there):
        try:
            count = tls.recv_into(target[: randomness.choice([1, 17, 4096, 100_000])])
        except BlockingIOError:
            continue
        assert count
        got += target[:count]
        while tls.pending and len(got) < len(sent_there):
            count = tls.recv_into(target)
            got += target[:count]
    assert got == sent_there
    assert shaken == [True]
    path = tmp_path / "file"
    path.write_bytes(sent_there)
    at = 0
    with path.open("rb") as file:
        while at < len(sent_there):
            try:
                if randomness.random() < 0.5:
                    at += tls.send_file(file.fileno(), at, len(sent_there) - at)
                else:
                    at += tls.sendmsg([sent_there[at : at + 3], sent_there[at + 3 : at + 5000]])
            except BlockingIOError:
                continue
    while not tls.flush():
        pass
    tls.close()
    thread.join(60)
    assert b"".join(back) == sent_there


def test_a_handshake_waits_for_its_turn_and_takes_nothing_before(signer: Authority, tmp_path: Path) -> None:
    context = server_context(settings(keystore_location=signer.sign("broker").file(tmp_path)))
    there, here = socket.socketpair()
    here.setblocking(False)
    turns = [False]
    tls = TlsSocket(here, lambda: context, memoryview(bytearray(1 << 16)), lambda: turns[0], lambda: None)
    there.sendall(b"\x16\x03\x01")
    with pytest.raises(BlockingIOError):
        tls.recv_into(memoryview(bytearray(10)))
    assert here.recv(10, socket.MSG_PEEK) == b"\x16\x03\x01", "else nothing would wake it again"
    turns[0] = True
    with pytest.raises(BlockingIOError):
        tls.recv_into(memoryview(bytearray(10)))
    there.close()
    tls.close()


def test_openssls_own_client_is_served_with_each_version(signer: Authority, tmp_path: Path) -> None:
    from ottla.testing import TestBroker

    (tmp_path / "ca.pem").write_text(signer.certificate_pem)
    options = {"listeners": "SSL://127.0.0.1:0", "ssl.keystore.location": signer.sign("broker").file(tmp_path)}
    with TestBroker(options) as broker:
        for version in ("-tls1_2", "-tls1_3"):
            command = ["openssl", "s_client", "-connect", broker.bootstrap_servers, "-CAfile", str(tmp_path / "ca.pem")]
            ran = subprocess.run(
                [*command, "-verify_return_error", version], input="", capture_output=True, text=True, check=True
            )
            assert "Verify return code: 0 (ok)" in ran.stdout


def asks_for_new_keys(sock: socket.socket) -> None:
    """A client that sends KeyUpdate of TLS 1.3, and reads nothing; Python's own ssl cannot send it."""
    library = ctypes.CDLL(ctypes.util.find_library("ssl"))
    for name in ("TLS_client_method", "SSL_CTX_new", "SSL_new"):
        getattr(library, name).restype = ctypes.c_void_p
    context = ctypes.c_void_p(library.SSL_CTX_new(ctypes.c_void_p(library.TLS_client_method())))
    tls = ctypes.c_void_p(library.SSL_new(context))
    if library.SSL_set_fd(tls, sock.fileno()) == library.SSL_connect(tls) == 1:
        while library.SSL_key_update(tls, 1) == library.SSL_do_handshake(tls) == 1:
            pass
    library.SSL_free(tls)
    library.SSL_CTX_free(context)


def test_one_who_asks_for_new_keys_without_end_and_reads_nothing_is_ended(signer: Authority, tmp_path: Path) -> None:
    context = server_context(settings(keystore_location=signer.sign("broker").file(tmp_path)))
    there, here = socket.socketpair()
    here.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    here.setblocking(False)
    thread = threading.Thread(target=asks_for_new_keys, args=(there,))
    thread.start()
    tls = TlsSocket(here, lambda: context, memoryview(bytearray(1 << 16)), lambda: True, lambda: None)
    target = memoryview(bytearray(1000))
    with pytest.raises(ssl.SSLError, match="new keys without end"):
        while True:
            with contextlib.suppress(BlockingIOError):
                assert tls.recv_into(target), "the client has gone"
    tls.close()
    thread.join(60)
    there.close()
