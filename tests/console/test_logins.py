"""Logins at an identity provider: the whole way of a browser, to a broker that takes the provider's tokens."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from tests.access.identified import Identified
from tests.access.identity import CONSOLE, Provider, served
from tests.console.beside import audit_log
from tests.console.browsing import Browser, browsing, text_of
from tests.registry_server import RegistryServer

from ottla.cli.main import main
from ottla.client import Admin
from ottla.client.registry_client import RegistryClient, RegistryRefusal
from ottla.console.command import COMMAND, setting_of
from ottla.console.desk import ConsoleSetting, Desk, links
from ottla.console.provider import ProviderSetting
from ottla.console.view import FORM
from ottla.kernel.acls import Acl, Operation, PatternType, Permission, ResourceKind
from ottla.web.exchange import Request, Response

CALLBACK = "http://localhost:8080/login/callback"


def of_anna(operation: Operation, name: str) -> Acl:
    return Acl(ResourceKind.TOPIC, name, PatternType.LITERAL, "User:anna", "*", operation, Permission.ALLOW)


@pytest.fixture(scope="module")
def identified(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Identified]:
    provider = Provider()
    provider.redirects = {CALLBACK}
    with served(provider) as url, pytest.MonkeyPatch.context() as patch:
        provider.issuer = url
        patch.setenv("OTTLA_ALLOWED_URLS", f"{url}/jwks")
        one = Identified(tmp_path_factory.mktemp("identified"), provider, url)
        with one.broker:
            with Admin(one.bootstrap, security=one.callback(name="alice")) as admin:
                for topic in ("hers", "his"):
                    admin.create_topic(topic, 1)
                admin.create_acls([of_anna(Operation.READ, "hers")])
            yield one


@pytest.fixture
def provider(identified: Identified) -> Iterator[Provider]:
    """The provider, which is at the end as it was."""
    before = dict(vars(identified.provider))
    yield identified.provider
    vars(identified.provider).update(before)


def setting(identified: Identified, *, login: str = "", **options: Any) -> ConsoleSetting:
    at = ProviderSetting(identified.provider.issuer, CONSOLE, **({"client_secret": "secret"} | options))
    return ConsoleSetting(identified.bootstrap, login=login, provider=at)


def header(answer: Response, name: str) -> str:
    return dict(answer.headers)[name]


async def at_provider(url: str) -> str:
    """The address to which the provider sends a browser on."""

    def ask() -> str:
        parts = urlsplit(url)
        connection = http.client.HTTPConnection(parts.netloc, timeout=20)
        connection.request("GET", f"{parts.path}?{parts.query}")
        answer = connection.getresponse()
        answer.read()
        connection.close()
        assert answer.status == 302
        return answer.headers["Location"]

    return await asyncio.to_thread(ask)


async def sent_back(one: Browser) -> str:
    """The path to which a browser comes back, once its user was at the provider."""
    answer = await one.ask("GET", "/login/provider")
    assert answer.status == 303, text_of(answer)
    back = await at_provider(header(answer, "Location"))
    assert back.startswith(CALLBACK)
    return back.removeprefix("http://localhost:8080")


async def log_in(one: Browser) -> Response:
    return await one.ask("GET", await sent_back(one))


async def desk_of(one: Browser) -> Desk:
    desk = await one.app.sessions.desk(Request("GET", "/", "", {"cookie": one.cookie}))
    assert desk is not None
    return desk


def test_a_user_of_the_provider_may_do_what_the_acls_let_that_user_do(
    identified: Identified, provider: Provider, tmp_path: Path
) -> None:
    async def visit(one: Browser) -> None:
        assert header(await one.ask("GET", "/topics"), "Location") == "/login"
        assert (await one.ask("GET", "/api/v1/topics")).status == 401
        page = await one.page("login")
        assert f"Log in at {identified.url}" in page
        assert "Password" not in page
        answer = await log_in(one)
        assert (answer.status, "Logged in as anna" in text_of(answer)) == (200, True)
        assert '<meta http-equiv="refresh" content="0; url=/">' in text_of(answer)
        assert "Log out anna" in await one.page("topics")
        names = [row["name"] for row in (await one.json("topics"))["list"]["rows"]]
        assert names == ["hers"]
        assert "hers" in await one.page("topic", name="hers")
        await one.page("topic", 404, name="his")
        for confirmed in ({}, {"confirm": "yes"}):
            await one.post("topic-create", 403, topic="new", **confirmed)
        with Admin(identified.bootstrap, security=identified.callback(name="alice")) as admin:
            admin.create_acls([of_anna(Operation.CREATE, "new")])
        await one.post("topic-create", topic="new", confirm="yes")
        await one.page("audit", 403)

    audit_log(tmp_path / "audit.log", "refused")
    browsing(replace(setting(identified), audit_log=(str(tmp_path / "audit.log"),)), visit)
    with Admin(identified.bootstrap, security=identified.callback(name="alice")) as admin:
        assert "new" in admin.list_topics()
        admin.delete_topics(["new"])


def test_two_users_have_two_sessions(identified: Identified, provider: Provider) -> None:
    async def visit(one: Browser) -> None:
        await log_in(one)
        provider.user = "alice"
        other = Browser(one.app)
        assert "Logged in as alice" in text_of(await log_in(other))
        assert "Log out alice" in await other.page("topics")
        assert "his" in await other.page("topics")
        assert "Log out anna" in await one.page("topics")
        assert (await desk_of(one)).token != (await desk_of(other)).token

    browsing(setting(identified), visit)


def test_what_goes_to_the_provider_and_what_the_browser_keeps(identified: Identified, provider: Provider) -> None:
    async def visit(one: Browser) -> None:
        answer = await one.ask("GET", "/login/provider")
        asked = parse_qs(urlsplit(header(answer, "Location")).query)
        assert asked["redirect_uri"] == [CALLBACK]
        assert asked["scope"] == ["openid profile"]
        kept = header(answer, "Set-Cookie")
        assert kept.endswith("; Path=/login; HttpOnly; SameSite=Lax; Max-Age=600")
        again = await one.ask("GET", "/login/provider")
        for name in ("state", "nonce", "code_challenge"):
            assert asked[name] != parse_qs(urlsplit(header(again, "Location")).query)[name]
        answer = await log_in(one)
        session, gone = [value for name, value in answer.headers if name == "Set-Cookie"]
        assert session.startswith("ottla_console=")
        assert session.endswith("; Path=/; HttpOnly; SameSite=Strict")
        assert gone.startswith("ottla_console_login=; Path=/login;")
        assert "Max-Age=0" in gone
        [form] = [form for path, form in provider.asked if "code" in form]
        assert sorted(form) == ["code", "code_verifier", "grant_type", "redirect_uri"]

    provider.asked = []
    browsing(setting(identified, scopes=("openid", "profile")), visit)


def test_behind_a_proxy_browsers_come_back_by_its_address_and_cookies_are_secure(
    identified: Identified, provider: Provider
) -> None:
    async def visit(one: Browser) -> None:
        answer = await one.ask("GET", "/login/provider")
        back = await at_provider(header(answer, "Location"))
        assert back.startswith("https://console.example.com/login/callback?")
        assert header(answer, "Set-Cookie").endswith("; Secure")
        answer = await one.ask("GET", back.removeprefix("https://console.example.com"))
        assert all(
            value.endswith("Secure") or "Max-Age=0" in value for name, value in answer.headers if name == "Set-Cookie"
        )
        assert "Log out anna" in await one.page("topics")

    provider.redirects = {"https://console.example.com/login/callback"}
    browsing(setting(identified, redirect_url="https://console.example.com/login/callback"), visit)


async def refused(one: Browser, answer: Response, status: int) -> str:
    """The sentence of a login that failed; nobody is logged in then."""
    page = unescape(text_of(answer))
    assert answer.status == status, page
    assert '<a href="/login">Log in</a>' in page
    assert (await one.ask("GET", "/topics")).status == 303
    return page.split('role="alert">')[1].split("</p>")[0]


def test_a_browser_that_did_not_begin_the_login_is_not_let_in(identified: Identified, provider: Provider) -> None:
    async def visit(one: Browser) -> None:
        path = await sent_back(one)
        stranger = Browser(one.app)
        for cookie in ("", "ottla_console_login=guessed", "ottla_console_login=1.x"):
            stranger.cookie = cookie
            assert "not begun in this browser" in await refused(stranger, await stranger.ask("GET", path), 403)
        own = Browser(one.app)
        await sent_back(own)
        assert "not begun in this browser" in await refused(own, await own.ask("GET", path), 403)
        assert "not begun in this browser" in await refused(own, await own.ask("GET", "/login/callback"), 403)
        assert not any("code" in form for _, form in provider.asked), "no code goes to the provider"
        assert (await one.ask("GET", path)).status == 200
        assert "answered 400" in await refused(stranger, await replayed(one, path, stranger), 502), "codes count once"

    async def replayed(one: Browser, path: str, stranger: Browser) -> Response:
        answer = await one.ask("GET", "/login/provider")
        stranger.cookie = header(answer, "Set-Cookie").split(";")[0]
        state = parse_qs(urlsplit(header(answer, "Location")).query)["state"][0]
        code = parse_qs(urlsplit(path).query)["code"][0]
        return await stranger.ask("GET", f"/login/callback?{urlencode({'state': state, 'code': code})}")

    provider.asked = []
    browsing(setting(identified), visit)


def test_a_user_who_refuses_reads_so(identified: Identified, provider: Provider) -> None:
    async def visit(one: Browser) -> None:
        answer = await log_in(one)
        assert "<no>" not in text_of(answer)
        sentence = await refused(one, answer, 403)
        assert sentence == f"{identified.url} let nobody log in: access_denied (the user said <no>)"

    provider.user = ""
    browsing(setting(identified), visit)


@pytest.mark.parametrize(
    ("members", "status", "sentence"),
    [
        ({"in_id_tokens": {"nonce": "of another"}}, 502, "its nonce is not that of this login"),
        ({"in_id_tokens": {"sub": None}}, 502, "its claim sub names nobody"),
        ({"in_id_tokens": {"aud": "another"}}, 502, "its audience (aud) is none of the console"),
        ({"in_answers": {"id_token": None}}, 502, "gave no ID token"),
        ({"in_answers": {"access_token": "opaque"}, "in_id_tokens": {"at_hash": None}}, 403, "do not take the token"),
    ],
)
def test_a_login_that_fails_says_why(
    identified: Identified, provider: Provider, members: dict[str, Any], status: int, sentence: str
) -> None:
    async def visit(one: Browser) -> None:
        assert sentence in await refused(one, await log_in(one), status)

    vars(provider).update(members)
    browsing(setting(identified), visit)


def test_a_provider_that_cannot_be_used_is_named(identified: Identified, provider: Provider) -> None:
    async def begin(one: Browser) -> str:
        return await refused(one, await one.ask("GET", "/login/provider"), 502)

    def said(*answers: tuple[int, bytes], at: ConsoleSetting | None = None) -> str:
        found: list[str] = []

        async def visit(one: Browser) -> None:
            found.append(await begin(one))

        provider.answers = list(answers)
        browsing(at or setting(identified), visit)
        assert provider.answers == []
        return found[0]

    place = f"{identified.url}/.well-known/openid-configuration"
    assert f"{place} answered 302" in said((302, b"http://127.0.0.1:1/")), "nobody is sent elsewhere"
    assert f"{place} answered 503" in said((503, b""))
    assert "more than 1048576 bytes" in said((200, b" " * (1 << 20) + b"{}"))
    assert "it is no JSON" in said((200, b"<html>"))
    provider.in_discovery = {"token_endpoint": "http://127.0.0.1:1/token"}
    assert "its token_endpoint http://127.0.0.1:1/token is not at the issuer" in said()
    with socket.create_server(("127.0.0.1", 0)) as free:
        gone = f"http://127.0.0.1:{free.getsockname()[1]}"
    at = ConsoleSetting(identified.bootstrap, provider=ProviderSetting(gone, CONSOLE))
    assert f"{gone}/.well-known/openid-configuration cannot be asked" in said(at=at)


def test_a_provider_that_hangs_holds_two_threads_and_a_bounded_line(identified: Identified) -> None:
    async def visit(one: Browser) -> None:
        asking = [asyncio.ensure_future(one.ask("GET", "/login/provider")) for _ in range(21)]
        done, _ = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
        assert [each.result().status for each in done] == [503]
        hanging.close()
        assert sorted({(await each).status for each in asking}) == [502, 503]

    with socket.create_server(("127.0.0.1", 0), backlog=128) as hanging:
        url = f"http://127.0.0.1:{hanging.getsockname()[1]}"
        browsing(ConsoleSetting(identified.bootstrap, provider=ProviderSetting(url, CONSOLE)), visit)


def test_a_session_ends_with_its_token(identified: Identified, provider: Provider) -> None:
    async def visit(one: Browser) -> None:
        await log_in(one)
        old = one.cookie
        desk = await desk_of(one)
        assert desk.tokens is not None
        later = time.time() + provider.lives_s + 1
        desk.tokens.provider.wall_s = lambda: later
        answer = await one.ask("GET", "/topics")
        assert (answer.status, header(answer, "Location")) == (303, "/login")
        assert (await one.ask("GET", "/api/v1/topics")).status == 401
        body = urlencode({"topic": "late", "confirm": "yes", "token": desk.token}).encode()
        assert (await one.ask("POST", "/change/topic-create", body, content_type=FORM)).status == 401
        desk.tokens.provider.wall_s = time.time
        one.cookie = old
        assert (await one.ask("GET", "/topics")).status == 303, "what is over stays over"

    browsing(setting(identified), visit)


def test_a_session_goes_on_as_long_as_the_provider_gives_newer_tokens(
    identified: Identified, provider: Provider
) -> None:
    async def visit(one: Browser) -> None:
        await log_in(one)
        tokens = (await desk_of(one)).tokens
        assert tokens is not None
        for later in (1, 2):
            tokens.provider.wall_s = lambda after_s=later * (provider.lives_s + 1): time.time() + after_s
            assert "Log out anna" in await one.page("topics")
        assert [form["grant_type"] for path, form in provider.asked if path == "/token"] == [
            ["authorization_code"], ["refresh_token"], ["refresh_token"],
        ]  # fmt: skip
        provider._refreshes.clear()
        tokens.provider.wall_s = lambda: time.time() + 3 * (provider.lives_s + 1)
        assert (await one.ask("GET", "/topics")).status == 303

    provider.asked = []
    provider.gives_refresh = True
    browsing(setting(identified), visit)


@pytest.mark.parametrize("has_end", [False, True])
def test_a_logout_ends_the_session_and_says_how_to_end_that_of_the_provider(
    identified: Identified, provider: Provider, has_end: bool
) -> None:
    async def visit(one: Browser) -> None:
        await log_in(one)
        old, desk = one.cookie, await desk_of(one)
        assert (await one.ask("POST", "/logout", b"token=wrong", content_type=FORM)).status == 403
        answer = await one.ask("POST", "/logout", urlencode({"token": desk.token}).encode(), content_type=FORM)
        assert "Max-Age=0" in header(answer, "Set-Cookie")
        if has_end:
            page = unescape(text_of(answer))
            assert answer.status == 200
            assert f'href="{identified.url}/logout?client_id=the%20console&id_token_hint=' in page
            assert '<a href="/login">' in page
        else:
            assert (answer.status, header(answer, "Location")) == (303, "/login")
        one.cookie = old
        assert (await one.ask("GET", "/topics")).status == 303
        assert desk.is_over

    provider.in_discovery = {"end_session_endpoint": f"{identified.url}/logout"} if has_end else {}
    browsing(setting(identified), visit)


def test_the_registry_and_the_workers_are_shown_the_token_that_the_brokers_take(
    identified: Identified, provider: Provider
) -> None:
    async def shown(one: Browser) -> set[str | None]:
        server.requests.clear()
        for page, count in (("schemas", 2), ("connectors", 1)):
            server.faults = [403] * count
            [fault] = (await one.json(page))["faults"]
            assert "does not let User:anna do this: ordered" in fault
        return {authorization for _, _, authorization in server.requests}

    async def visit(one: Browser) -> None:
        await log_in(one)
        tokens = (await desk_of(one)).tokens
        assert tokens is not None
        first = tokens("")[0]
        assert await shown(one) == {f"Bearer {first}"}
        tokens.provider.wall_s = lambda: time.time() + provider.lives_s + 1
        [newer] = await shown(one)
        assert newer is not None
        assert newer.startswith("Bearer ")
        assert newer != f"Bearer {first}"
        registry = (await desk_of(one)).registry()
        tokens.end()
        server.requests.clear()
        assert (await one.ask("GET", "/schemas")).status == 303
        with pytest.raises(RegistryRefusal, match=r"the schema registry is not asked: the login at .* is over"):
            registry.ask("GET", "/subjects")
        assert server.requests == []

    provider.gives_refresh = True
    with RegistryServer() as server:
        registry, workers = RegistryClient((server.url,)), links([server.url])
        browsing(replace(setting(identified), registry=registry, connect=workers), visit)


def test_passwords_of_the_brokers_do_beside_the_provider(identified: Identified, provider: Provider) -> None:
    async def visit(one: Browser) -> None:
        page = await one.page("login")
        assert "Log in at" in page
        assert "Password (PLAIN)" in page
        body = urlencode({"user": "bob", "password": "b"}).encode()
        assert (await one.ask("POST", "/login", body, content_type=FORM)).status == 303
        assert "Log out bob" in await one.page("topics")
        other = Browser(one.app)
        await log_in(other)
        assert "Log out anna" in await other.page("topics")

    async def without(one: Browser) -> None:
        assert (await one.ask("POST", "/login", b"user=bob&password=b", content_type=FORM)).status == 404

    browsing(setting(identified, login="PLAIN"), visit)
    browsing(setting(identified), without)


def test_a_console_without_a_provider_sends_nobody_to_one(identified: Identified) -> None:
    async def visit(one: Browser) -> None:
        assert "Log in at" not in await one.page("login")
        for path in ("/login/provider", "/login/callback?code=x&state=y"):
            assert (await one.ask("GET", path)).status == 404

    browsing(ConsoleSetting(identified.bootstrap, login="PLAIN"), visit)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--oidc-client-id", "x"], "--oidc-client-id is about an identity provider: say which with --oidc-issuer"),
        (["--oidc-isuer", "https://x"], "there is no option --oidc-isuer; did you mean --oidc-issuer?"),
        (["--oidc-issuer", "https://x"], "--oidc-client-id"),
        (["--oidc-issuer", "http://x", "--oidc-client-id", "x"], "--oidc-issuer: http://x must be https"),
        (["--oidc-issuer", "https://x", "--oidc-client-id", "x", "--oidc-scopes", "profile"], "openid must be among"),
        (["--oidc-issuer", "https://x", "--oidc-client-id", "x", "--oidc-client-secret-file", "/dev/null"],
         "/dev/null: its first line must be the secret"),
    ],
)  # fmt: skip
def test_options_that_do_not_fit_are_refused(options: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["console", "-b", "127.0.0.1:1", "--port", "0", *options]) != 0
    assert said in capsys.readouterr().err


def test_the_secret_comes_from_a_file_or_from_the_environment(
    identified: Identified, provider: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "secret"
    file.write_text("from the file\n")
    said = ["--oidc-issuer", identified.url, "--oidc-client-id", CONSOLE, "--oidc-scopes", "openid,profile email"]

    def found(*more: str) -> ProviderSetting:
        at = setting_of(COMMAND.parser.parse(["-b", identified.bootstrap, *said, *more])).provider
        assert at is not None
        return at

    assert found().client_secret == ""
    monkeypatch.setenv("OTTLA_OIDC_CLIENT_SECRET", "from the environment")
    assert found().client_secret == "from the environment"
    at = found("--oidc-client-secret-file", str(file), "--oidc-principal-claim", "email")
    assert at == ProviderSetting(identified.url, CONSOLE, "from the file", ("openid", "profile", "email"), "email")
    assert json.dumps(repr(at)).count("from the file") == 0
