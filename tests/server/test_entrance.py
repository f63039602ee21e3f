"""Listeners that ask nobody who they are, and when they must not come up."""

from __future__ import annotations

import pytest

from ottla.config.security import listener_security
from ottla.server.entrance import Exposed, look_at_listener

PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_a="b";'
OPTIONS = {
    "ssl.keystore.location": "key.pem",
    "ssl.truststore.location": "ca.pem",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_ssl.plain.sasl.jaas.config": PLAIN,
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": PLAIN,
}


def look(name: str, host: str, *, insecure: bool = False, limited: bool = False, **more: str) -> list[str]:
    texts = OPTIONS | {key.replace("_", "."): value for key, value in more.items()}
    security, problems = listener_security(texts, name)
    assert problems == []
    return look_at_listener(name, (host, 9092), security, insecure=insecure, limited=limited)


@pytest.mark.parametrize("host", ["0.0.0.0", "10.0.0.5", "::", "fe80::1%eth0"])
@pytest.mark.parametrize("name", ["PLAINTEXT", "SSL"])
def test_a_listener_open_to_all_needs_a_word(name: str, host: str) -> None:
    with pytest.raises(Exposed, match=r"asks nobody.*ottla secure init.*--insecure.*KAFKA_OTTLA_INSECURE=true"):
        look(name, host)
    [warning] = look(name, host, insecure=True)
    assert "everybody who reaches it may read, write and delete" in warning


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1"])
def test_on_loopback_nothing_is_asked(host: str) -> None:
    assert look("PLAINTEXT", host) == []


def test_a_listener_that_asks_is_no_danger_unless_everybody_reads_along() -> None:
    assert look("SASL_SSL", "0.0.0.0") == []
    assert look("SSL", "0.0.0.0", ssl_client_auth="required") == []
    assert "does not encrypt" in look("SASL_PLAINTEXT", "0.0.0.0")[0]
    with pytest.raises(Exposed, match=r"ssl\.client\.auth=required"):
        look("SSL", "0.0.0.0", ssl_client_auth="requested")


def test_acls_limit_somebody_without_a_name_too() -> None:
    assert look("SSL", "0.0.0.0", limited=True) == []
    assert "does not encrypt" in look("PLAINTEXT", "0.0.0.0", limited=True)[0]
