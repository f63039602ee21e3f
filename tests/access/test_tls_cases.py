"""Certificates and records that a listener with TLS must refuse: each ends its connection with one line in the log."""

from __future__ import annotations

import gc
import logging
import socket
import ssl
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, ExtensionOID
from tests.access.certificates import Authority, Signed, authority

from ottla.testing import TestBroker
from ottla.wire.connection import ServerConnection

API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 7, -1)
NO_TEXT = x509.UnrecognizedExtension(ExtensionOID.SUBJECT_ALTERNATIVE_NAME, b"\x30\x05\x82\x03a\xff\xfe")
"""A host name that is no text."""
LIKE_SERVERS = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])


class Mutual:
    """A broker that asks each client for a certificate, and refuses one that was revoked."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.signer: Authority = authority()
        self.revoked = self.signer.sign("alice")
        trusted = directory / "trusted.pem"
        trusted.write_text(self.signer.certificate_pem + self.signer.revoked(self.revoked))
        options = {
            "listeners": "SSL://127.0.0.1:0",
            "ssl.keystore.location": self.signer.sign("broker").file(directory, "broker.pem"),
            "ssl.truststore.location": str(trusted),
            "ssl.client.auth": "required",
        }
        self.broker = TestBroker(options)

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.broker.bootstrap_servers.partition(":")
        return host, int(port)

    def serves(self, shown: Signed | None) -> bool:
        """True if a client with this certificate has an answer."""
        context = ssl.create_default_context(cadata=self.signer.certificate_pem)
        if shown is not None:
            context.load_cert_chain(shown.file(self.directory, "shown.pem"))
        with socket.create_connection(self.address, timeout=20) as sock:
            try:
                with context.wrap_socket(sock, server_hostname="localhost") as tls:
                    tls.sendall(API_VERSIONS)
                    return len(tls.recv(8)) == 8
            except (ssl.SSLError, ConnectionError):
                return False


@pytest.fixture(scope="module")
def mutual(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mutual]:
    one = Mutual(tmp_path_factory.mktemp("mutual"))
    with one.broker:
        yield one


REFUSED = {
    "none": (lambda mutual: None, "PEER_DID_NOT_RETURN_A_CERTIFICATE"),
    "expired": (lambda mutual: mutual.signer.sign("alice", valid=False), "certificate has expired"),
    "not yet valid": (lambda mutual: mutual.signer.sign("alice", begins_days=3), "certificate is not yet valid"),
    "of another authority": (
        lambda mutual: authority("strangers").sign("alice"),
        "unable to get local issuer certificate",
    ),
    "of itself": (lambda mutual: authority("alice"), "self-signed certificate"),
    "for servers alone": (
        lambda mutual: mutual.signer.sign("alice", extensions=[LIKE_SERVERS]),
        "unsuitable certificate purpose",
    ),
    "revoked": (lambda mutual: mutual.revoked, "certificate revoked"),
    "with a name that is no text": (lambda mutual: mutual.signer.sign("alice", extensions=[NO_TEXT]), "cannot be read"),
}


def test_a_client_with_a_good_certificate_is_served(mutual: Mutual) -> None:
    assert mutual.serves(mutual.signer.sign("alice"))


@pytest.mark.parametrize("kind", REFUSED)
def test_a_certificate_that_is_not_good_ends_the_connection_with_one_line(
    mutual: Mutual, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    make, why = REFUSED[kind]
    assert not mutual.serves(make(mutual))
    assert why in the_line(caplog)
    assert mutual.serves(mutual.signer.sign("alice"))


def the_line(caplog: pytest.LogCaptureFixture) -> str:
    """The one line that the broker says; it may come a moment after the end of the connection."""
    deadline = time.monotonic() + 20
    while not caplog.records and time.monotonic() < deadline:
        time.sleep(0.01)
    (line,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert line.exc_info is None
    return line.getMessage()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
def test_older_versions_of_tls_end_the_connection_with_one_line(
    mutual: Mutual, caplog: pytest.LogCaptureFixture, version: ssl.TLSVersion
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with pytest.warns(DeprecationWarning):
        context.minimum_version = context.maximum_version = version
    context.set_ciphers("ALL:@SECLEVEL=0")
    with socket.create_connection(mutual.address, timeout=20) as sock, pytest.raises(OSError):
        context.wrap_socket(sock)
    assert "UNSUPPORTED_PROTOCOL" in the_line(caplog)


def test_new_keys_by_a_second_handshake_are_refused(mutual: Mutual) -> None:
    command = ["openssl", "s_client", "-connect", f"127.0.0.1:{mutual.address[1]}", "-tls1_2"]
    shown = mutual.signer.sign("alice").file(mutual.directory, "shown.pem")
    ran = subprocess.run([*command, "-cert", shown, "-msg"], input="R\n", capture_output=True, text=True, check=False)
    assert "RENEGOTIATING" in ran.stdout + ran.stderr
    assert "no_renegotiation" in ran.stdout
    assert mutual.serves(mutual.signer.sign("alice"))


def test_a_closed_connection_gives_its_memory_back_without_the_garbage_collector(mutual: Mutual) -> None:
    def alive() -> int:
        return sum(1 for each in gc.get_objects() if isinstance(each, ssl.SSLObject | ServerConnection))

    def until(condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline, alive() - before
            time.sleep(0.01)

    out = ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), out, server_hostname="localhost").do_handshake()
    hello = out.read()
    gc.collect()
    gc.disable()
    try:
        before = alive()
        socks = [socket.create_connection(mutual.address, timeout=20) for _ in range(5)]
        for sock in socks:
            sock.sendall(hello)
        until(lambda: alive() >= before + 10)
        for sock in socks:
            sock.close()
        until(lambda: alive() <= before)
        assert mutual.serves(mutual.signer.sign("alice"))
        until(lambda: alive() <= before)
    finally:
        gc.enable()
