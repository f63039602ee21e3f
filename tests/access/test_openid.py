"""The authorization code flow: what is asked of a provider, and every answer that is not taken."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.access.identity import Provider

from ottla.access.openid import (
    LOGIN_S,
    LoginAttempt,
    LoginRefused,
    ProviderEndpoints,
    WrongAnswer,
    authorization_url,
    begun,
    code_of,
    discovery_url,
    end_session_url,
    issuer_refusal,
    login_attempt,
    read_endpoints,
    read_tokens,
    token_request,
    unsafe_url,
)

ISSUER = "https://identity.example.org/realms/kafka"
ENDPOINTS = ProviderEndpoints(f"{ISSUER}/authorize", f"{ISSUER}/token", f"{ISSUER}/jwks")
KEY = b"k" * 32
KEPT = begun("random", 1000.9)
ATTEMPT = login_attempt(KEPT, KEY)


def document(**more: Any) -> bytes:
    provider = Provider()
    provider.issuer = ISSUER
    provider.in_discovery = more
    _, content = provider.answer("/.well-known/openid-configuration", {}, "", "")
    return content


def test_the_addresses_of_a_provider_are_read() -> None:
    assert read_endpoints(document(), ISSUER) == ENDPOINTS
    end = f"{ISSUER}/logout"
    assert read_endpoints(document(end_session_endpoint=end), ISSUER).end_session == end
    for methods, by_post in ((["client_secret_post"], True), (["client_secret_post", "client_secret_basic"], False)):
        found = read_endpoints(document(token_endpoint_auth_methods_supported=methods), ISSUER)
        assert found.by_post is by_post
    assert discovery_url(ISSUER) == discovery_url(ISSUER + "/") == f"{ISSUER}/.well-known/openid-configuration"


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"issuer": "https://evil.example"}, "it says that it is of the issuer 'https://evil.example'"),
        ({"issuer": ISSUER + "/"}, "it says that it is of the issuer"),
        ({"issuer": None}, "it says that it is of the issuer 'None'"),
        ({"authorization_endpoint": None}, "its authorization_endpoint is no text"),
        ({"authorization_endpoint": "http://identity.example.org/a"}, "must be https"),
        ({"authorization_endpoint": "javascript:alert(1)"}, "must be a URL with https"),
        ({"token_endpoint": 7}, "its token_endpoint is no text"),
        ({"token_endpoint": "https://u:p@identity.example.org/token"}, "must not hold a user or a password"),
        ({"token_endpoint": "https://elsewhere.example/token"}, "is not at the issuer"),
        ({"token_endpoint": "https://identity.example.org:8443/token"}, "is not at the issuer"),
        ({"token_endpoint": "file:///etc/passwd"}, "must be a URL with https"),
        ({"jwks_uri": "https://elsewhere.example/jwks"}, "add it to the environment variable OTTLA_ALLOWED_URLS"),
        ({"jwks_uri": "http://127.0.0.1/jwks"}, "is not at the issuer"),
        ({"end_session_endpoint": "http://identity.example.org/logout"}, "must be https"),
        ({"end_session_endpoint": []}, "its end_session_endpoint is no text"),
        ({"code_challenge_methods_supported": ["plain"]}, "lacks S256"),
        ({"response_types_supported": ["id_token"]}, "lacks code"),
        ({"response_types_supported": "code"}, "is no list of texts"),
        ({"token_endpoint_auth_methods_supported": ["private_key_jwt"]}, "has none of client_secret_basic"),
    ],
)
def test_a_discovery_document_that_sends_us_elsewhere_or_lacks_something_is_refused(
    more: dict[str, Any], reason: str
) -> None:
    with pytest.raises(WrongAnswer) as refused:
        read_endpoints(document(**more), ISSUER)
    assert reason in str(refused.value)


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", b"[" * 100_000, b"<html>"])
def test_an_answer_that_is_no_object_is_refused(content: bytes) -> None:
    with pytest.raises(WrongAnswer):
        read_endpoints(content, ISSUER)
    with pytest.raises(WrongAnswer):
        read_tokens(content)


def test_an_address_elsewhere_is_taken_where_the_environment_allows_it() -> None:
    elsewhere = "https://keys.example/jwks"
    assert read_endpoints(document(jwks_uri=elsewhere), ISSUER, {elsewhere}).keys == elsewhere
    with pytest.raises(WrongAnswer, match="must be https"):
        read_endpoints(document(jwks_uri="http://keys.example"), ISSUER, {"http://keys.example"})


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("https://identity.example.org", None),
        ("http://localhost:8080/realms/x", None),
        ("http://127.0.0.2", None),
        ("http://[::1]:80/", None),
        ("http://identity.example.org", "must be https"),
        ("http://127.0.0.1.example.org", "must be https"),
        ("http://localhost.example.org", "must be https"),
        ("ftp://127.0.0.1", "must be a URL with https"),
        ("https://", "must be a URL with https"),
        ("https://a:b", "is no URL"),
        ("https://[::1", "is no URL"),
        ("https://a@b", "must not hold a user"),
        ("https://a/b c", "signs that no URL has"),
        ("https://exämple.org", "signs that no URL has"),
    ],
)
def test_secrets_go_over_https_or_stay_on_this_machine(url: str, reason: str | None) -> None:
    found = unsafe_url(url)
    assert (found is None) if reason is None else (found is not None and reason in found)


def test_an_issuer_is_an_address_without_a_query() -> None:
    assert issuer_refusal(ISSUER) is None
    assert "neither a query nor a fragment" in str(issuer_refusal(ISSUER + "?a=b"))
    assert "must be https" in str(issuer_refusal("http://identity.example.org"))


def test_the_challenge_is_that_of_the_rfc() -> None:
    # RFC 7636, appendix B.
    attempt = LoginAttempt("", "", "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk")
    assert attempt.challenge == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"


def test_the_secrets_of_a_login_follow_from_the_browsers_text_and_the_key_alone() -> None:
    assert login_attempt(KEPT, KEY) == ATTEMPT
    others = [login_attempt(begun("random", 1001), KEY), login_attempt(begun("other", 1000), KEY),
              login_attempt(KEPT, b"l" * 32)]  # fmt: skip
    texts = [text for each in (ATTEMPT, *others) for text in each]
    assert len(set(texts)) == len(texts) == 12
    assert all(len(text) == 43 for text in texts), "RFC 7636 wants 43 signs at the least"


def test_the_browser_takes_all_that_is_needed_to_the_provider() -> None:
    url = authorization_url(
        f"{ISSUER}/authorize?tenant=a", ATTEMPT, client_id="the console", redirect_url="https://c/login/callback",
        scopes=("openid", "profile"),
    )  # fmt: skip
    assert url.startswith(f"{ISSUER}/authorize?tenant=a&response_type=code&client_id=the%20console&")
    asked = {name: value for name, [value] in parse_qs(urlsplit(url).query).items()}
    assert asked == {
        "tenant": "a", "response_type": "code", "client_id": "the console", "redirect_uri": "https://c/login/callback",
        "scope": "openid profile", "state": ATTEMPT.state, "nonce": ATTEMPT.nonce,
        "code_challenge": ATTEMPT.challenge, "code_challenge_method": "S256",
    }  # fmt: skip
    assert ATTEMPT.verifier not in url
    assert end_session_url(f"{ISSUER}/logout", client_id="a b", id_token="x.y.z") == (
        f"{ISSUER}/logout?client_id=a%20b&id_token_hint=x.y.z"
    )


def back(**given: str) -> dict[str, list[str]]:
    return {name: [value] for name, value in ({"state": ATTEMPT.state, "code": "abc"} | given).items()}


def code(given: dict[str, list[str]], kept: str = KEPT, now_s: float = 1001.0) -> str:
    return code_of(given, kept, login_attempt(kept, KEY), issuer=ISSUER, now_s=now_s)


def test_the_code_that_the_browser_brings_back_is_taken_whatever_else_it_brings() -> None:
    assert code(back()) == "abc"
    assert code(back(iss=ISSUER, session_state="x", scope="openid")) == "abc"
    assert code(back(), now_s=1000.0 + LOGIN_S) == "abc"


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (back(state="of another"), "not begun in this browser"),
        (back(state=""), "not begun in this browser"),
        (back(state="ü"), "not begun in this browser"),
        ({"code": ["abc"]}, "not begun in this browser"),
        (back() | {"state": [ATTEMPT.state, ATTEMPT.state]}, "not begun in this browser"),
        (back(error="access_denied"), f"{ISSUER} let nobody log in: access_denied"),
        (back(error="access_denied", error_description="by\nthe user"), "access_denied (by the user)"),
        (back(error="access_denied", state="of another"), "not begun in this browser"),
        (back(iss="https://evil.example"), "another provider sent the browser back"),
        (back(code=""), "without a code"),
        ({"state": [ATTEMPT.state]}, "without a code"),
        (back() | {"code": ["abc", "def"]}, "without a code"),
    ],
)
def test_a_browser_that_comes_back_otherwise_is_refused(given: dict[str, list[str]], reason: str) -> None:
    with pytest.raises(LoginRefused) as refused:
        code(given)
    assert reason in str(refused.value)


def test_a_login_of_another_browser_or_one_that_took_long_is_refused() -> None:
    for kept in ("", begun("other", 1000), "ü", "no.time"):
        with pytest.raises(LoginRefused, match="not begun in this browser"):
            code(back(), kept)
    for now_s in (1000.0 + LOGIN_S + 1, 999.0):
        with pytest.raises(LoginRefused, match="took longer than 10 minutes"):
            code(back(), now_s=now_s)


def test_a_long_error_of_the_provider_is_cut() -> None:
    with pytest.raises(LoginRefused) as refused:
        code(back(error="e" * 10_000, error_description="d" * 10_000))
    assert len(str(refused.value)) < 1_000


def test_the_client_proves_itself_as_the_provider_takes_it() -> None:
    form = {"grant_type": "authorization_code"}
    body, headers = token_request(ENDPOINTS, form, client_id="the console", client_secret="s:ü")
    assert parse_qs(body.decode()) == {"grant_type": ["authorization_code"]}
    assert base64.b64decode(headers["Authorization"].removeprefix("Basic ")) == b"the%20console:s%3A%C3%BC"
    body, headers = token_request(ENDPOINTS._replace(by_post=True), form, client_id="c", client_secret="s")
    assert parse_qs(body.decode()) == {"grant_type": ["authorization_code"], "client_id": ["c"], "client_secret": ["s"]}
    body, headers = token_request(ENDPOINTS, form, client_id="c", client_secret="")
    assert parse_qs(body.decode()) == {"grant_type": ["authorization_code"], "client_id": ["c"]}
    assert "Authorization" not in headers


def answer(**more: Any) -> bytes:
    said = {"access_token": "a.b.c", "token_type": "Bearer", "id_token": "d.e.f", "expires_in": 300} | more
    return json.dumps({name: value for name, value in said.items() if value is not None}).encode()


def test_the_tokens_of_an_answer_are_read() -> None:
    assert read_tokens(answer()) == ("a.b.c", 300.0, "", "d.e.f")
    assert read_tokens(answer(token_type="bearer", expires_in="60", refresh_token="r")) == ("a.b.c", 60.0, "r", "d.e.f")
    assert read_tokens(answer(expires_in=None, id_token=None)) == ("a.b.c", None, "", "")


@pytest.mark.parametrize(
    "more",
    [
        {"access_token": None}, {"access_token": ""}, {"access_token": 7}, {"access_token": "a b\n"},
        {"access_token": "x" * 100_000}, {"access_token": "ü"}, {"token_type": None}, {"token_type": "DPoP"},
        {"expires_in": 0}, {"expires_in": -1}, {"expires_in": True}, {"expires_in": "soon"}, {"expires_in": "٣"},
        {"expires_in": float("inf")}, {"expires_in": float("nan")}, {"expires_in": []}, {"id_token": {}},
        {"refresh_token": ["r"]},
    ],
)  # fmt: skip
def test_an_answer_without_tokens_that_can_be_used_is_refused(more: dict[str, Any]) -> None:
    with pytest.raises(WrongAnswer):
        read_tokens(answer(**more))


_ODD = st.none() | st.booleans() | st.integers() | st.text(max_size=30) | st.lists(st.text(max_size=8), max_size=2)
_MEMBERS = ("authorization_endpoint", "token_endpoint", "jwks_uri", "end_session_endpoint", "issuer",
            "code_challenge_methods_supported", "response_types_supported")  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.sampled_from(_MEMBERS), _ODD | st.just("https://[x"), min_size=1))
def test_no_discovery_document_does_anything_else_than_be_read_or_be_refused(more: dict[str, Any]) -> None:
    try:
        found = read_endpoints(document(**more), ISSUER)
    except WrongAnswer:
        return
    assert all(url.startswith((ISSUER, "https://identity.example.org")) for url in (found.token, found.keys))
