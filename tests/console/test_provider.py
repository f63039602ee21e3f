"""An identity provider as a console asks it: codes, tokens, newer tokens, addresses, in a time that the tests make."""

from __future__ import annotations

import base64
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.access.identity import CONSOLE, ISSUER, Provider

from ottla.access.openid import begun
from ottla.client.oauth import TokenUnavailable
from ottla.console.provider import IdentityProvider, ProviderFailed, ProviderSetting, UserTokens
from ottla.web.fetch import FetchFailed

REDIRECT = "http://localhost:8080/login/callback"
LIFE_S = 300


class World:
    """A provider, a console that asks it, and the time of both."""

    def __init__(self, **setting: Any) -> None:
        self.provider = Provider()
        self.provider.redirects = {REDIRECT}
        self.provider.now_s = lambda: self.now_s
        self.now_s = 1_000_000.0
        self.asked: list[str] = []
        self.is_away = False
        self.console = IdentityProvider(
            ProviderSetting(ISSUER, CONSOLE, **({"client_secret": "secret"} | setting)),
            self.fetch,
            lambda: self.now_s,
            lambda: self.now_s,
        )

    def fetch(self, url: str, timeout_s: float, *, form: bytes = b"", headers: dict[str, str] | None = None) -> bytes:
        self.asked.append(url.removeprefix(ISSUER))
        if self.is_away:
            raise FetchFailed(f"{url} cannot be asked: it is away")
        said = base64.b64decode((headers or {}).get("Authorization", "").removeprefix("Basic ")).decode()
        user, _, password = said.partition(":")
        status, content = self.provider.answer(self.asked[-1], parse_qs(form.decode()), user, password)
        if status != 200:
            raise FetchFailed(f"{url} answered {status}", passing=status >= 500)
        return content

    def code(self, kept: str) -> str:
        """The code that a browser brings back once its user has logged in."""
        url = self.console.authorization_url(self.console.attempt(kept), REDIRECT)
        _, place = self.provider.answer(url.removeprefix(ISSUER), {}, "", "")
        return self.console.code_of(parse_qs(urlsplit(place.decode()).query), kept)

    def log_in(self) -> UserTokens:
        kept = begun("random", self.now_s)
        return self.console.redeem(self.code(kept), self.console.attempt(kept), REDIRECT)


def test_a_code_becomes_the_tokens_of_its_user_once() -> None:
    world = World()
    kept = begun("random", world.now_s)
    code = world.code(kept)
    tokens = world.console.redeem(code, world.console.attempt(kept), REDIRECT)
    assert tokens.user == ("anna", "anna", world.now_s + LIFE_S)
    token, expires_s = tokens("")
    assert (token.count("."), expires_s) == (2, world.now_s + LIFE_S)
    with pytest.raises(ProviderFailed, match="answered 400; check the client's id"):
        world.console.redeem(code, world.console.attempt(kept), REDIRECT)


def test_a_code_is_worth_nothing_without_the_verifier_and_the_redirect_url_of_its_login() -> None:
    world = World()
    kept = begun("random", world.now_s)
    other = world.console.attempt(begun("other", world.now_s))
    with pytest.raises(ProviderFailed, match="answered 400"):
        world.console.redeem(world.code(kept), other, REDIRECT)
    with pytest.raises(ProviderFailed, match="answered 400"):
        world.console.redeem(world.code(kept), world.console.attempt(kept), REDIRECT + "/")


def test_a_console_proves_itself_by_a_secret_or_is_a_public_client() -> None:
    assert World().log_in().user.name == "anna"
    assert World(client_secret="").log_in().user.name == "anna"
    with pytest.raises(ProviderFailed, match="answered 401; check the client's id, its secret"):
        World(client_secret="wrong").log_in()


@pytest.mark.parametrize(
    ("claims", "reason"),
    [({"nonce": "x"}, "nonce"), ({"aud": "another"}, "audience"), ({"iss": "https://x"}, "issuer"),
     ({"sub": None}, "its claim sub names nobody"), ({"at_hash": "x"}, "at_hash"), ({"azp": "x"}, "azp")],
)  # fmt: skip
def test_an_id_token_that_is_not_good_ends_the_login(claims: dict[str, Any], reason: str) -> None:
    world = World()
    world.provider.in_id_tokens = claims
    with pytest.raises(ProviderFailed, match=r"the ID token of .* is not taken") as failed:
        world.log_in()
    assert reason in str(failed.value)
    assert not failed.value.passing


def test_the_claim_that_names_users_may_be_another() -> None:
    world = World(principal_claim="email")
    with pytest.raises(ProviderFailed, match="its claim email names nobody"):
        world.log_in()
    world.provider.in_id_tokens = {"email": "anna@example.org"}
    assert world.log_in().user == ("anna@example.org", "anna", world.now_s + LIFE_S)


@pytest.mark.parametrize(
    ("answers", "reason"),
    [({"id_token": None}, "gave no ID token"), ({"access_token": None}, "it has no access_token"),
     ({"token_type": "mac"}, "its token_type is 'mac'"), ({"id_token": "x"}, "it is no signed JWT")],
)  # fmt: skip
def test_an_answer_without_tokens_that_can_be_used_ends_the_login(answers: dict[str, Any], reason: str) -> None:
    world = World()
    world.provider.in_answers = answers
    with pytest.raises(ProviderFailed, match=reason):
        world.log_in()


def test_a_login_without_newer_tokens_ends_with_its_token() -> None:
    world = World()
    tokens = world.log_in()
    first = tokens("")
    world.now_s += LIFE_S - 1
    assert tokens("") == first
    assert not tokens.has_expired()
    world.now_s += 1
    tokens.renew()
    assert tokens.has_expired()
    with pytest.raises(TokenUnavailable, match="is over"):
        tokens("")
    assert world.asked.count("/token") == 1


def test_a_newer_token_is_fetched_in_the_last_quarter_of_the_life_of_the_one_before() -> None:
    world = World()
    world.provider.gives_refresh = True
    tokens = world.log_in()
    first = tokens("")
    world.now_s += LIFE_S * 3 // 4 - 1
    assert tokens("") == first
    world.now_s += 1
    second = tokens("")
    assert second == (second[0], world.now_s + LIFE_S)
    assert second[0] != first[0]
    assert tokens("") == second
    world.now_s += 10_000
    assert tokens.has_expired()
    tokens.renew()
    assert not tokens.has_expired(), "a session that slept goes on where the provider lets it"
    tokens.renew()
    assert world.asked.count("/token") == 3


def test_a_provider_that_gives_no_more_tokens_ends_the_login_at_the_end_of_the_last_one() -> None:
    world = World()
    world.provider.gives_refresh = True
    tokens = world.log_in()
    first = tokens("")
    world.provider._refreshes.clear()
    world.now_s += LIFE_S - 10
    assert tokens("") == tokens("") == first
    assert world.asked.count("/token") == 2, "it said no: it is not asked again"
    world.now_s += 10
    with pytest.raises(TokenUnavailable):
        tokens("")


def test_a_provider_that_is_away_for_a_while_is_asked_again() -> None:
    world = World()
    world.provider.gives_refresh = True
    tokens = world.log_in()
    first = tokens("")
    world.is_away = True
    world.now_s += LIFE_S - 20
    assert [tokens("") for _ in range(3)] == [first] * 3
    assert world.asked.count("/token") == 2, "it is not asked again at once"
    world.now_s += 6
    world.is_away = False
    assert tokens("") != first


def test_newer_tokens_of_another_user_are_not_taken() -> None:
    world = World()
    world.provider.gives_refresh = True
    tokens = world.log_in()
    [refresh] = world.provider._refreshes
    world.provider._refreshes[refresh] = "mallory"
    world.now_s += LIFE_S
    tokens.renew()
    assert tokens.has_expired()


def test_a_token_that_does_not_say_how_long_it_lives_lives_as_long_as_the_id_token() -> None:
    world = World()
    world.provider.in_answers = {"expires_in": None}
    world.provider.gives_refresh = True
    tokens = world.log_in()
    assert tokens("")[1] == world.now_s + LIFE_S
    world.now_s += LIFE_S
    tokens.renew()
    assert tokens("")[1] == world.now_s + LIFE_S


def test_tokens_are_forgotten_at_the_end_and_the_provider_may_end_its_own_session() -> None:
    world = World()
    tokens = world.log_in()
    assert tokens.end() == ""
    assert tokens.has_expired()
    with pytest.raises(TokenUnavailable):
        tokens("")
    world = World()
    world.provider.in_discovery = {"end_session_endpoint": f"{ISSUER}/logout"}
    tokens = world.log_in()
    id_token = parse_qs(urlsplit(url := tokens.end()).query)["id_token_hint"][0]
    assert url.startswith(f"{ISSUER}/logout?client_id=the%20console&")
    assert id_token.count(".") == 2
    assert id_token not in tokens.end()


def test_addresses_are_asked_for_once_an_hour_and_those_at_hand_stay() -> None:
    world = World()
    place = "/.well-known/openid-configuration"
    world.log_in()
    world.log_in()
    assert world.asked.count(place) == world.asked.count("/jwks") == 1
    world.now_s += 3_601
    world.provider.in_discovery = {"issuer": "https://evil.example"}
    assert world.code(begun("random", world.now_s))
    assert world.code(begun("random", world.now_s))
    assert world.asked.count(place) == 2, "a provider that answers wrongly is not asked again at once"


def test_a_provider_that_is_away_at_first_is_asked_after_some_seconds() -> None:
    world = World()
    world.is_away = True
    for _ in range(3):
        with pytest.raises(ProviderFailed, match="it is away") as failed:
            world.log_in()
        assert failed.value.passing
    assert len(world.asked) == 1
    world.is_away = False
    world.now_s += 6
    assert world.log_in().user.name == "anna"


@pytest.mark.parametrize(
    ("setting", "option"),
    [
        ({"issuer": "http://identity.example.org"}, "--oidc-issuer: .* must be https"),
        ({"issuer": f"{ISSUER}?a"}, "--oidc-issuer: .* neither a query"),
        ({"client_id": ""}, "--oidc-client-id"),
        ({"scopes": ("profile",)}, "--oidc-scopes: openid must be among them"),
        ({"principal_claim": ""}, "--oidc-principal-claim"),
        ({"redirect_url": "http://console.example.com/login/callback"}, "--oidc-redirect-url: .* must be https"),
        ({"redirect_url": "https://console.example.com/"}, "--oidc-redirect-url: .* must end in /login/callback"),
    ],
)
def test_an_option_that_cannot_be_is_refused_by_name(setting: dict[str, Any], option: str) -> None:
    with pytest.raises(ValueError, match=option):
        ProviderSetting(**({"issuer": ISSUER, "client_id": CONSOLE} | setting))


def test_a_secret_is_not_shown() -> None:
    assert "hunter2" not in repr(ProviderSetting(ISSUER, CONSOLE, "hunter2"))
