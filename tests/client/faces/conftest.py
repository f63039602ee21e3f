"""Both faces of the client, called alike: a test that asks for `face` runs on each."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from contextlib import ExitStack
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import ottla.client
from ottla.client import aio

NAMES = ("Admin", "Cluster", "Consumer", "Producer")
FACES: dict[str, Any] = {"blocking": ottla.client, "asyncio": aio}


class Called:
    """An object of a face. Its calls are made in the event loop, and their results awaited where that is needed."""

    def __init__(self, made: Any, runner: asyncio.Runner) -> None:
        self.made, self._runner = made, runner

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.made, name)
        if not callable(found):
            return found

        def called(*arguments: Any, **named: Any) -> Any:
            async def wait() -> Any:
                result = found(*arguments, **named)
                if inspect.isasyncgen(result):
                    return [each async for each in result]
                return await result if inspect.isawaitable(result) else result

            return self._runner.run(wait())

        return called


@pytest.fixture(params=sorted(FACES))
def face(request: pytest.FixtureRequest) -> Iterator[SimpleNamespace]:
    """`face.Admin("localhost:9092")` and so on; they are closed at the end of the test."""
    module: ModuleType = FACES[request.param]
    with asyncio.Runner() as runner, ExitStack() as closing:

        def maker(name: str) -> Any:
            def make(*arguments: Any, **named: Any) -> Called:
                given = {key: each.made if isinstance(each, Called) else each for key, each in named.items()}

                async def made() -> Any:
                    return getattr(module, name)(*arguments, **given)

                called = Called(runner.run(made()), runner)
                closing.callback(called.close)
                return called

            return make

        yield SimpleNamespace(**{name: maker(name) for name in NAMES}, module=module)
