"""An authority of one's own, its certificates, and the facts of them."""

from __future__ import annotations

import datetime
import ssl

import pytest
from tests.access.certificates import an_rsa_certificate

from ottla.tls.authority import facts, issue, java_truststore, new_authority, signed_by
from ottla.tls.contexts import client_context, server_context
from ottla.tls.settings import TlsSettings
from ottla.tls.stores import read_trusted

NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)


def shaken(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> None:
    """A handshake over memory; ssl.SSLError if a side refuses."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(to_client, to_server, server_hostname=host),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    while sides:
        for side in list(sides):
            try:
                side.do_handshake()
                sides.remove(side)
            except ssl.SSLWantReadError:
                pass


def test_a_client_that_trusts_the_authority_takes_its_certificates_for_their_names_alone() -> None:
    ours, strange = new_authority("ours", now=NOW), new_authority("strange", now=NOW)
    broker = issue(ours, "broker", ["broker.example.org", "10.0.0.5", "::1"], now=NOW)
    server = server_context(TlsSettings(keystore_key=broker.key, keystore_certificate_chain=broker.certificate))
    client = client_context(TlsSettings(truststore_certificates=ours.certificate))
    for host in ("broker.example.org", "10.0.0.5", "::1"):
        shaken(server, client, host)
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shaken(server, client, "other.example.org")
    stranger = client_context(TlsSettings(truststore_certificates=strange.certificate))
    with pytest.raises(ssl.SSLCertVerificationError):
        shaken(server, stranger, "broker.example.org")
    assert signed_by(broker.certificate, ours.certificate)
    assert not signed_by(broker.certificate, strange.certificate)


def test_facts_say_names_days_and_weakness() -> None:
    authority = new_authority("ours", now=NOW, days=100)
    [one] = facts(issue(authority, "broker", ["a", "10.0.0.5"], now=NOW, days=30).certificate)
    assert (one.subject, one.issuer, one.names) == ("CN=broker", "CN=ours", ("a", "10.0.0.5"))
    assert (one.days_left(NOW + DAY), one.days_left(NOW + 31 * DAY), one.weakness) == (28, -2, "")
    assert facts(authority.certificate)[0].is_authority
    assert not one.is_authority
    [weak] = facts(an_rsa_certificate(1024))
    assert "1024 bits" in weak.weakness
    assert facts(an_rsa_certificate(2048))[0].weakness == ""


def test_a_truststore_for_java_holds_the_certificates(tmp_path) -> None:
    both = "".join(new_authority(name, now=NOW).certificate for name in ("one", "two"))
    (tmp_path / "store").write_bytes(java_truststore(both, "changeit"))
    assert read_trusted(str(tmp_path / "store"), "changeit").split() == both.split()
