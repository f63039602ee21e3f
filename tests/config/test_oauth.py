"""The options of OAUTHBEARER on a listener, and the list of URLs that options may name."""

from __future__ import annotations

import pytest

from ottla.config.allowed_urls import allowed_urls, url_refusal
from ottla.config.option import ConfigError
from ottla.config.resolve import read_static
from ottla.config.security import listener_security

KAFKAS = "org.apache.kafka.common.security.oauthbearer."
URL, OUT = "https://identity.example.org/keys", "listener.name.out."
TEXTS = {
    "listeners": "IN://127.0.0.1:0,OUT://127.0.0.1:0",
    "listener.security.protocol.map": "IN:PLAINTEXT,OUT:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "sasl.oauthbearer.jwks.endpoint.url": URL,
    "sasl.oauthbearer.expected.audience": "kafka,lake",
}
HANDLER, OWN_JAAS = "sasl.server.callback.handler.class", f"{OUT}oauthbearer.sasl.jaas.config"


@pytest.fixture(autouse=True)
def allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTTLA_ALLOWED_URLS", f"{URL}, file:///etc/keys.json")


def problems(more: dict[str, str | None]) -> list[str]:
    texts = {name: text for name, text in (TEXTS | more).items() if text is not None}
    try:
        read_static(command_line=texts)
    except ConfigError as fault:
        return list(fault.problems)
    return []


def test_a_listener_takes_tokens_by_the_options_of_its_mechanism_its_own_and_those_of_all() -> None:
    more = {
        f"{OUT}sasl.oauthbearer.clock.skew.seconds": "5",
        f"{OUT}oauthbearer.sasl.oauthbearer.clock.skew.seconds": "7",
        f"{OUT}sasl.oauthbearer.sub.claim.name": "client_id",
        f"{OUT}oauthbearer.sasl.server.callback.handler.class": f"{KAFKAS}OAuthBearerValidatorCallbackHandler",
        f"{OUT}oauthbearer.sasl.jaas.config": f"{KAFKAS}OAuthBearerLoginModule required;",
    }
    assert problems(dict(more)) == []
    security, _ = listener_security(TEXTS | more, "OUT")
    assert security.oauth is not None
    rules = security.oauth.rules
    assert (rules.audiences, rules.skew_s, rules.subject_claim) == (("kafka", "lake"), 7, "client_id")
    assert (security.oauth.jwks_url, security.oauth.refresh_ms) == (URL, 3_600_000)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"sasl.oauthbearer.jwks.endpoint.url": None}, "set sasl.oauthbearer.jwks.endpoint.url"),
        ({"sasl.oauthbearer.jwks.endpoint.url": "file:///etc/passwd"}, "is not allowed: add it to"),
        ({"sasl.oauthbearer.jwks.endpoint.url": "ftp://a/b"}, "https, http or file"),
        ({"sasl.oauthbearer.expected.audience": None}, "set sasl.oauthbearer.expected.audience"),
        ({"sasl.oauthbearer.clock.skew.seconds": "-1"}, "at least 0"),
        ({f"{OUT}oauthbearer.sasl.oauthbearer.expected.audienc": "a"}, "did you mean sasl.oauthbearer.expected.aud"),
        ({f"{OUT}plain.sasl.oauthbearer.expected.issuer": "a"}, "PLAIN has no use for it"),
        ({f"{OUT}{HANDLER}": "org.me.Handler"}, "no class is loaded here"),
        (
            {f"{OUT}{HANDLER}": f"{KAFKAS}OAuthBearerUnsecuredValidatorCallbackHandler"},
            "no class is loaded here",
        ),
        ({"sasl.oauthbearer.jwt.validator.class": "org.me.Validator"}, "no class is loaded here"),
        ({OWN_JAAS: "x.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub=a;"}, "without a signature"),
        ({OWN_JAAS: "x.PlainLoginModule required;"}, "takes OAuthBearerLoginModule"),
    ],
)  # fmt: skip
def test_options_that_would_let_strangers_in_are_refused_by_name(more: dict[str, str | None], said: str) -> None:
    assert any(said in each for each in problems(more))


def test_a_class_of_ones_own_is_refused_where_tokens_are_not_taken_either() -> None:
    more = {
        "sasl.enabled.mechanisms": "PLAIN",
        f"{OUT}plain.sasl.jaas.config": 'x.PlainLoginModule required user_a="1";',
        f"{OUT}{HANDLER}": "org.me.Handler",
    }
    assert any("no class is loaded here" in each for each in problems(dict(more)))


def test_tokens_for_everybody_are_taken_only_where_that_is_said() -> None:
    assert problems({"sasl.oauthbearer.expected.audience": None, "ottla.insecure": "true"}) == []
    assert problems({"sasl.oauthbearer.expected.audience": None, "sasl.oauthbearer.expected.issuer": "i"}) == []


def test_urls_are_allowed_by_the_environment_alone_and_to_the_letter() -> None:
    said = {
        "OTTLA_ALLOWED_URLS": "https://a/b,",
        "KAFKA_OPTS": "-Xmx1g '-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=https://c/d,https://e/f' -Dother=https://g",
    }
    assert allowed_urls(said) == {"https://a/b", "https://c/d", "https://e/f"}
    files = "-Dorg.apache.kafka.sasl.oauthbearer.allowed.files=/etc/a.pem,'/etc/b c'"
    assert allowed_urls({"KAFKA_OPTS": files}) == {"file:///etc/a.pem", "file:///etc/b%20c"}
    assert allowed_urls({"KAFKA_OPTS": "'-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=https://c/d"}) == frozenset()
    for url in ("https://c/d", "https://a/b"):
        assert url_refusal("x", url, said) is None
    for url in ("https://a/b/", "https://a", "http://a/b", "https://a/b?c", "HTTPS://a/b", "https://[", "", "file:etc"):
        assert url_refusal("x", url, said) is not None
    refused = url_refusal("x", "https://user:hunter2@a/b", said)
    assert refused is not None
    assert "hunter2" not in refused
