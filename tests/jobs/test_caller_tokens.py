"""Tokens that callers over HTTP bring: whose they are, and what a file of options must say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.access.identity import AUDIENCE, ISSUER, Provider, served

from ottla.jobs.caller_tokens import CallerTokens
from ottla.web.entry import TokenRefused

URL = "sasl.oauthbearer.jwks.endpoint.url"


@pytest.fixture
def provider() -> Provider:
    return Provider()


@pytest.fixture
def options(provider: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file of options by which the provider's tokens are taken."""
    with served(provider) as url:
        monkeypatch.setenv("OTTLA_ALLOWED_URLS", f"{url}/jwks")
        file = tmp_path / "server.properties"
        file.write_text(
            f"listeners=SASL_SSL://:9092\n{URL}={url}/jwks\nsasl.oauthbearer.expected.issuer={ISSUER}\n"
            f"sasl.oauthbearer.expected.audience={AUDIENCE}\n"
        )
        yield file


def test_the_owner_of_a_token_is_named_by_the_options_of_a_broker(provider: Provider, options: Path) -> None:
    tokens = CallerTokens(str(options))
    assert tokens.owner(provider.token("alice")) == "alice"
    for token, why in (
        (provider.token("alice", aud="another"), "aud"),
        (provider.token("alice", exp=1), "expired"),
        (provider.token("alice")[:-4], "signature"),
        ("", "no signed JWT"),
        ("a.b.c", "no signed JWT"),
    ):
        with pytest.raises(TokenRefused, match=why):
            tokens.owner(token)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", f"options: .*set {URL}"),
        (
            "sasl.oauthbearer.jwks.endpoint.ulr=https://a/b",
            r"endpoint\.ulr is no option of tokens.*endpoint\.url",
        ),
        (f"{URL}=https://a/b\nsasl.oauthbearer.expected.audiance=x", r"expected\.audiance is no option of tokens"),
        (f"{URL}=https://elsewhere.example/jwks\nsasl.oauthbearer.expected.issuer=x", "OTTLA_ALLOWED_URLS"),
        (f"{URL}=https://a/b", "OAUTHBEARER would take every token that the provider signs"),
        (f"{URL}=https://a/b\nsasl.oauthbearer.clock.skew.seconds=x", r"options: .*clock\.skew\.seconds"),
    ],
)
def test_a_file_that_does_not_do_is_refused_by_what_is_wrong(
    text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTTLA_ALLOWED_URLS", "https://a/b")
    file = tmp_path / "options"
    file.write_text(text)
    with pytest.raises(ValueError, match=said):
        CallerTokens(str(file))
    with pytest.raises(ValueError, match="No such file"):
        CallerTokens(str(tmp_path / "nowhere"))
