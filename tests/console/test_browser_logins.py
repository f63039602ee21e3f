"""Logins at an identity provider in real Chromium, which keeps cookies as browsers do: the provider is another site."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.access.identified import Identified
from tests.access.identity import CONSOLE, Provider, served
from tests.console.browsing import FAULTS

from ottla.client import Admin
from ottla.console.app import ConsoleApp, guarded
from ottla.console.desk import ConsoleSetting
from ottla.console.provider import ProviderSetting
from ottla.web.server import listening, serving
from ottla.web.thread import LoopThread


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    """A provider on 127.0.0.1, whose user is a user with all rights."""
    one = Provider()
    one.shows_page, one.user = True, "alice"
    with served(one) as url, pytest.MonkeyPatch.context() as patch:
        one.issuer = url
        one.in_discovery = {"end_session_endpoint": f"{url}/logout"}
        patch.setenv("OTTLA_ALLOWED_URLS", f"{url}/jwks")
        yield one


@pytest.fixture(scope="module")
def console(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A console on localhost, which browsers take for another site than 127.0.0.1."""
    bound = listening("127.0.0.1", 0)
    url = f"http://localhost:{bound.getsockname()[1]}"
    provider.redirects = {f"{url}/login/callback"}
    identified = Identified(tmp_path_factory.mktemp("identified"), provider, provider.issuer)

    @asynccontextmanager
    async def opened() -> AsyncIterator[None]:
        at = ProviderSetting(provider.issuer, CONSOLE, "secret")
        app = ConsoleApp(ConsoleSetting(identified.bootstrap, login="PLAIN", provider=at))
        async with serving(guarded(app), bound):
            yield
        await app.close()

    with bound, identified.broker:
        with Admin(identified.bootstrap, security=identified.callback(name="alice")) as admin:
            admin.create_topic("orders", 1)
        with LoopThread("console", opened):
            yield url


def test_a_user_comes_in_by_the_provider_and_goes_out_again(chromium: Any, console: str, provider: Provider) -> None:
    context = chromium.new_context(base_url=console)
    context.set_default_timeout(90_000)  # two cores may be busy with other tests
    page = context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda fault: faults.append(str(fault)))
    page.on("console", lambda said: faults.append(said.text) if "Content Security Policy" in said.text else None)
    page.goto("/topics")
    assert page.url == f"{console}/login"
    assert page.evaluate(FAULTS) == []
    page.get_by_role("link", name="Log in at").click()
    page.get_by_role("link", name="I am here").click()
    page.get_by_role("button", name="Log out alice").wait_for()
    assert page.url == f"{console}/"
    kept = {each["name"]: each for each in context.cookies()}
    assert list(kept) == ["ottla_console"], "the cookie of the login is gone"
    assert (kept["ottla_console"]["sameSite"], kept["ottla_console"]["httpOnly"]) == ("Strict", True)
    page.goto("/topics")
    page.get_by_role("link", name="orders").wait_for()
    page.get_by_role("button", name="Log out alice").click()
    end = page.get_by_role("link", name="Log out at")
    assert end.get_attribute("href").startswith(f"{provider.issuer}/logout?client_id=")
    assert page.evaluate(FAULTS) == []
    page.goto("/topics")
    assert page.url == f"{console}/login"
    context.close()
    assert faults == []


def test_a_user_who_refuses_reads_so_and_can_begin_again(chromium: Any, console: str, provider: Provider) -> None:
    context = chromium.new_context(base_url=console)
    context.set_default_timeout(90_000)
    page = context.new_page()
    page.goto("/login/provider")
    provider.user = ""
    try:
        page.get_by_role("link", name="I am here").click()
        page.get_by_text("access_denied (the user said <no>)").wait_for()
    finally:
        provider.user = "alice"
    assert page.evaluate(FAULTS) == []
    page.get_by_role("link", name="Log in").click()
    page.get_by_role("link", name="Log in at").click()
    page.get_by_role("link", name="I am here").click()
    page.get_by_role("button", name="Log out alice").wait_for()
    context.close()
