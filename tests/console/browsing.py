"""A console without a socket, for tests: pages by their path, forms by their change, events as they come."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from ottla.console.app import ConsoleApp, guarded
from ottla.console.desk import ConsoleSetting
from ottla.console.view import FORM
from ottla.web.exchange import HttpError, Request, Response

HOST = {"host": "localhost:8080"}
FAULTS = Path(__file__).with_name("faults_of_a_page.js").read_text().partition("\n")[2]
"""A script that tells what is wrong with a page in a real browser."""


class Browser:
    """Asks one console. Its cookies are sent with every request once there are some."""

    def __init__(self, app: ConsoleApp) -> None:
        self.app = app
        self._handler = guarded(app)
        self._cookies: dict[str, str] = {}

    @property
    def cookie(self) -> str:
        """All cookies, as a header has them."""
        return "; ".join(f"{name}={value}" for name, value in self._cookies.items())

    @cookie.setter
    def cookie(self, header: str) -> None:
        self._cookies = {}
        for each in filter(None, header.split("; ")):
            self._keep(each)

    def _keep(self, pair: str) -> None:
        name, _, value = pair.partition("=")
        self._cookies.pop(name, None)
        if value:
            self._cookies[name] = value

    async def ask(self, method: str, address: str, body: bytes = b"", **headers: str) -> Response:
        """The response, refusals too."""
        parts = urlsplit(address)
        given = {**HOST, **{name.replace("_", "-"): value for name, value in headers.items()}}
        if self.cookie:
            given["cookie"] = self.cookie
        try:
            answer = await self._handler(Request(method, parts.path, parts.query, given, body))
        except HttpError as refusal:
            return refusal.response()
        for name, value in answer.headers:
            if name == "Set-Cookie":
                self._keep(value.split(";")[0])
        return answer

    async def page(self, page: str, status: int = 200, /, **parameters: object) -> str:
        """The HTML of a page."""
        answer = await self.ask("GET", f"/{page}?{urlencode(parameters)}")
        assert answer.status == status, answer.body
        return text_of(answer)

    async def json(self, page: str, /, **parameters: object) -> Any:
        """The page as JSON."""
        answer = await self.ask("GET", f"/api/v1/{page or 'overview'}?{urlencode(parameters)}")
        found = json.loads(text_of(answer))
        assert answer.status == 200, found
        return found

    async def post(self, change: str, status: int = 200, /, **fields: object) -> str:
        """The answer to a form, sent with the token of this user's desk."""
        desk = await self.app.sessions.desk(Request("GET", "/", "", {"cookie": self.cookie}))
        token = {"token": desk.token} if desk else {}
        answer = await self.ask("POST", f"/change/{change}", urlencode({**token, **fields}).encode(), content_type=FORM)
        assert answer.status == status, answer.body
        return unescape(text_of(answer))

    async def confirm(self, name: str, /, **fields: object) -> str:
        """Ask for a change, and confirm it with all the fields that the question holds."""
        await self.post(name, **fields)
        return await self.post(name, confirm="yes", **fields)

    async def events(self, address: str) -> AsyncIterator[tuple[str, Any]]:
        """Events by name, until the stream ends or the caller does."""
        answer = await self.ask("GET", address)
        assert answer.status == 200, answer.body
        assert not isinstance(answer.body, bytes)
        try:
            async for piece in answer.body:
                lines = dict(line.split(": ", 1) for line in piece.decode().strip().splitlines() if ": " in line)
                if "data" in lines:
                    yield lines.get("event", ""), json.loads(lines["data"])
        finally:
            await answer.body.aclose()


def text_of(answer: Response) -> str:
    assert isinstance(answer.body, bytes)
    return answer.body.decode()


@asynccontextmanager
async def browser(setting: ConsoleSetting) -> AsyncIterator[Browser]:
    """A browser on a console of its own."""
    app = ConsoleApp(setting)
    try:
        yield Browser(app)
    finally:
        await app.close()


def browsing(setting: ConsoleSetting, visit: Callable[[Browser], Coroutine[Any, Any, None]]) -> None:
    """Run one visit."""

    async def run() -> None:
        async with browser(setting) as one:
            await asyncio.wait_for(visit(one), 60)

    asyncio.run(run())


def fields_of(question: str) -> Mapping[str, str]:
    """The hidden fields of a question, as `post` returns it."""
    return dict(re.findall(r'type="hidden" name="([^"]*)" value="(.*?)">', question))
