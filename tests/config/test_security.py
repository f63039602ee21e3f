"""The options of TLS and SASL, for all listeners and for each."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.config.jaas import WrongJaas, parse_jaas
from ottla.config.option import ConfigError
from ottla.config.resolve import read_static
from ottla.config.security import listener_security

PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_a="1" user_b="2";'
TEXTS = {
    "listeners": "IN://127.0.0.1:0,OUT://127.0.0.1:0",
    "listener.security.protocol.map": "IN:PLAINTEXT,OUT:SASL_SSL",
    "ssl.keystore.location": "all.pem",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.out.plain.sasl.jaas.config": PLAIN,
}


def problems(**more: str) -> list[str]:
    texts = TEXTS | {name.replace("__", "."): text for name, text in more.items()}
    try:
        read_static(command_line=texts)
    except ConfigError as fault:
        return list(fault.problems)
    return []


def test_what_a_listener_has_of_its_own_goes_before_what_all_have() -> None:
    more = {"listener.name.out.ssl.keystore.location": "out.pem", "listener.name.OUT.ssl.client.auth": "requested"}
    security, wrong = listener_security(TEXTS | more, "OUT")
    assert wrong == []
    assert security.tls is not None
    assert (security.tls.keystore_location, security.tls.client_auth) == ("out.pem", "requested")
    assert security.users == {"a": "1", "b": "2"}
    assert listener_security(TEXTS | more, "IN")[0].tls is None


def test_nothing_secret_is_printed() -> None:
    security, _ = listener_security(TEXTS, "OUT")
    assert repr(security) == "ListenerSecurity(SASL_SSL)"
    said = problems(**{"listener.name.out.plain.sasl.jaas.config": "x.PlainLoginModule required user_a=hunter2"})
    assert said
    assert "hunter2" not in "".join(said)


def test_these_options_are_right() -> None:
    assert problems() == []


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("sasl.enabled.mechanisms", "GSSAPI", "GSSAPI needs the broker's key"),
        ("listener.name.out.PLAIN.sasl.jaas.config", PLAIN, "no listener has the option PLAIN.sasl.jaas.config"),
        ("listener.name.out.plain.sasl.jaas.config", "x.ScramLoginModule required;", "PLAIN takes PlainLoginModule"),
        ("listener.name.out.plain.sasl.jaas.config", "x.PlainLoginModule required;", "PLAIN has no users"),
        ("ssl.keystore.location", "", "TLS needs a key and a certificate"),
        ("listener.name.uot.ssl.client.auth", "none", "there is no listener UOT (did you mean out?)"),
        ("listener.name.out.ssl.client.aut", "none", "did you mean ssl.client.auth?"),
        ("listener.name.out.ssl.client.auth", "maybe", "String must be one of"),
        ("ssl.enabled.protocols", "SSLv3", "SSLv3 is not served"),
        ("listener.security.protocol.map", "IN:PLAINTEXT,OUT:TLS", "there is no protocol TLS"),
        ("listener.security.protocol.map", "IN:PLAINTEXT,OTU:SSL", "has no protocol"),
        ("listener.name.out.plain.connections.max.reauth.ms", "soon", "Not a number"),
    ],
)
def test_what_cannot_be_is_refused_by_its_name(name: str, text: str, said: str) -> None:
    assert [said in each for each in problems(**{name: text})] == [True]


@pytest.mark.parametrize(
    "text",
    [
        "",
        ";",
        "A required",
        "A needed;",
        "A required b;",
        "A required b=;",
        "A required b=c",
        'A required b="c;',
        "A required b=c b=d;",
    ],
)
def test_a_text_that_is_no_login_configuration_is_refused(text: str) -> None:
    with pytest.raises(WrongJaas):
        parse_jaas(text)


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,10}", fullmatch=True), st.text(max_size=20), max_size=5))
def test_quoted_values_come_back_whatever_they_hold(options: dict[str, str]) -> None:
    quoted = {name: value.replace("\\", "\\\\").replace('"', '\\"') for name, value in options.items()}
    text = "a.b.Module required " + " ".join(f'{name}="{value}"' for name, value in quoted.items()) + ";"
    assert parse_jaas(text) == ("Module", options)
