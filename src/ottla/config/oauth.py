"""The options of OAUTHBEARER on a listener: whose tokens are taken, and what they must say. Kafka's names (KIP-768)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ottla.config.allowed_urls import url_refusal
from ottla.config.jaas import Jaas
from ottla.config.option import Check, ConfigError, OptionKind, OptionSet, Scope, Value, at_least, option

_KAFKAS = "org.apache.kafka.common.security.oauthbearer."
VALIDATORS = tuple(f"{_KAFKAS}{part}OAuthBearerValidatorCallbackHandler" for part in ("", "secured."))
_JWT_VALIDATORS = tuple(f"{_KAFKAS}{part}JwtValidator" for part in ("Default", "Broker"))


def only_kafkas(names: tuple[str, ...]) -> Check:
    """Classes are named by configurations for Kafka; none is ever loaded."""

    def check(value: Value) -> str | None:
        if value is None or value in names:
            return None
        return f"no class is loaded here; the names that are taken, for what is done anyway: {', '.join(names)}"

    return check


class OauthConfig(OptionSet):
    """The options that a listener may have of its own, and those of all."""

    # fmt: off
    sasl_oauthbearer_jwks_endpoint_url: str | None = option(
        "sasl.oauthbearer.jwks.endpoint.url", None, OptionKind.STRING,
        doc="The keys that sign tokens, a JWKS: https://, http:// or file:///. OTTLA_ALLOWED_URLS must allow it.",
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int = option(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms", 3600000, OptionKind.LONG,
        doc="The age at which keys are fetched anew, at the next login.",
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms: int = option(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", 100, OptionKind.LONG,
        doc="The time before keys are asked for again where that failed; it doubles each time.",
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms: int = option(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", 10000, OptionKind.LONG,
        doc="The longest time of that kind.",
    )
    sasl_oauthbearer_expected_issuer: str | None = option(
        "sasl.oauthbearer.expected.issuer", None, OptionKind.STRING,
        doc="The identity provider that a token must name (iss).",
    )
    sasl_oauthbearer_expected_audience: tuple[str, ...] = option(
        "sasl.oauthbearer.expected.audience", (), OptionKind.LIST,
        doc="A token must name one of these as its audience (aud); without this option it must name none.",
    )
    sasl_oauthbearer_sub_claim_name: str = option(
        "sasl.oauthbearer.sub.claim.name", "sub", OptionKind.STRING,
        doc="The claim that holds the user's name.",
    )
    sasl_oauthbearer_scope_claim_name: str = option(
        "sasl.oauthbearer.scope.claim.name", "scope", OptionKind.STRING,
        doc="The claim that holds scopes: a text or a list of texts. ACLs, not scopes, give rights.",
    )
    sasl_oauthbearer_clock_skew_seconds: int = option(
        "sasl.oauthbearer.clock.skew.seconds", 30, OptionKind.INT, check=at_least(0),
        doc="The difference between our clock and the provider's that is borne with.",
    )
    sasl_oauthbearer_jwt_validator_class: str = option(
        "sasl.oauthbearer.jwt.validator.class", _JWT_VALIDATORS[0], OptionKind.CLASS,
        check=only_kafkas(_JWT_VALIDATORS),
        doc="Kafka's own names are taken, and nothing is loaded: tokens are always checked.",
    )
    sasl_server_callback_handler_class: str | None = option(
        "sasl.server.callback.handler.class", None, OptionKind.CLASS, check=only_kafkas(VALIDATORS),
        scope=Scope.READ_ONLY,
        doc="Kafka's own name for OAUTHBEARER is taken, and nothing is loaded: tokens are always checked.",
    )
    # fmt: on


class TokenRules(NamedTuple):
    """The demands on a token."""

    issuer: str = ""
    """Empty: any."""
    audiences: tuple[str, ...] = ()
    """The token names one of these; empty: the token must not name any."""
    subject_claim: str = "sub"
    scope_claim: str = "scope"
    skew_s: int = 30


class OauthSettings(NamedTuple):
    """The tokens that a listener takes."""

    jwks_url: str
    refresh_ms: int
    backoff_ms: int
    backoff_max_ms: int
    rules: TokenRules


def wrong_values(texts: Mapping[str, str]) -> list[str]:
    """Values of these options that no listener can have, one with other mechanisms neither."""
    try:
        _config(texts)
    except ConfigError as fault:
        return list(fault.problems)
    return []


def oauth_settings(texts: Mapping[str, str], jaas: Jaas | None) -> tuple[OauthSettings | None, list[str]]:
    """The settings in a listener's own options (`texts`), whose values do, and what is missing in them."""
    config = _config(texts)
    problems = [f"sasl.jaas.config: {name}: tokens without a signature are not taken" for name in _unsecured(jaas)]
    url = config.sasl_oauthbearer_jwks_endpoint_url
    if not url:
        problems.append("OAUTHBEARER needs the keys that sign tokens: set sasl.oauthbearer.jwks.endpoint.url")
    elif (refused := url_refusal("sasl.oauthbearer.jwks.endpoint.url", url)) is not None:
        problems.append(refused)
    rules = TokenRules(
        config.sasl_oauthbearer_expected_issuer or "",
        config.sasl_oauthbearer_expected_audience,
        config.sasl_oauthbearer_sub_claim_name,
        config.sasl_oauthbearer_scope_claim_name,
        config.sasl_oauthbearer_clock_skew_seconds,
    )
    if not rules.issuer and not rules.audiences and texts.get("ottla.insecure", "").strip().lower() != "true":
        problems.append(
            "OAUTHBEARER would take every token that the provider signs, for whatever program: set "
            "sasl.oauthbearer.expected.audience and sasl.oauthbearer.expected.issuer, or say that this is meant "
            "(--insecure, ottla.insecure=true)"
        )
    if problems:
        return None, problems
    return OauthSettings(
        url or "",
        config.sasl_oauthbearer_jwks_endpoint_refresh_ms,
        config.sasl_oauthbearer_jwks_endpoint_retry_backoff_ms,
        config.sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms,
        rules,
    ), []


def _config(texts: Mapping[str, str]) -> OauthConfig:
    names = OauthConfig.BY_NAME
    own = {name: texts[f"oauthbearer.{name}"] for name in names if f"oauthbearer.{name}" in texts}
    return OauthConfig.of_texts({name: text for name, text in texts.items() if name in names} | own)


def _unsecured(jaas: Jaas | None) -> list[str]:
    return [name for name in (jaas.options if jaas else ()) if name.startswith("unsecured")]
