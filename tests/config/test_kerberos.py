"""The options of GSSAPI on a listener."""

from __future__ import annotations

import pytest

from ottla.config.security import listener_security

JAAS = "listener.name.out.gssapi.sasl.jaas.config"
MODULE = "com.sun.security.auth.module.Krb5LoginModule required"
TEXTS = {
    "listener.security.protocol.map": "OUT:SASL_PLAINTEXT",
    JAAS: f'{MODULE} useKeyTab=true keyTab="k" principal="kafka/h@R";',
}
RULES = "sasl.kerberos.principal.to.local.rules"


def test_the_key_and_the_rules_of_a_listener_are_found() -> None:
    security, problems = listener_security(TEXTS | {f"listener.name.out.gssapi.{RULES}": "RULE:[1:$1],DEFAULT"}, "OUT")
    assert problems == []
    assert security.kerberos is not None
    assert (security.kerberos.realm, security.kerberos.rules) == ("R", ("RULE:[1:$1]", "DEFAULT"))


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (JAAS, f"{MODULE};", "GSSAPI needs the broker's key"),
        (JAAS, f'{MODULE} keyTab="k" principal="kafka";', "must be SERVICE/HOST@REALM"),
        (JAAS, f'{MODULE} keytab="k" principal="kafka/h@R";', "did you mean keyTab"),
        (JAAS, "x.PlainLoginModule required;", "GSSAPI takes Krb5LoginModule"),
        ("sasl.kerberos.service.name", "hdfs", "is hdfs, and the broker's principal is kafka/h@R"),
        (RULES, "DEFAULT,,", "must not be empty"),
    ],
)
def test_options_that_will_not_do_are_refused_by_name(name: str, text: str, said: str) -> None:
    _, problems = listener_security(TEXTS | {name: text}, "OUT")
    assert any(said in each for each in problems)
