"""Paths and methods to handlers."""

from __future__ import annotations

import asyncio

import pytest

from ottla.web.exchange import HttpError, Request, Response
from ottla.web.routes import Router, Routes

ROUTES = Routes(
    {
        "": {"GET": "root"},
        "boats": {"GET": "list", "POST": "build"},
        "boats/new": {"GET": "form"},
        "boats/{boat}": {"DELETE": "sink"},
        "boats/{boat}/crew/{sailor}": {"GET": "sailor"},
        "files/{path...}": {"GET": "file"},
    }
)


@pytest.mark.parametrize(
    ("method", "path", "endpoint", "names"),
    [
        ("GET", "/", "root", {}),
        ("HEAD", "/boats", "list", {}),
        ("POST", "/boats/", "build", {}),
        ("GET", "/boats/new", "form", {}),
        ("DELETE", "/boats/Ida", "sink", {"boat": "Ida"}),
        ("DELETE", "/boats/a%2Fb%25", "sink", {"boat": "a/b%"}),
        ("GET", "/boats/%C3%A4/crew/x+y", "sailor", {"boat": "ä", "sailor": "x+y"}),
        ("GET", "/files/a", "file", {"path": "a"}),
        ("GET", "/files/a/b.js", "file", {"path": "a/b.js"}),
    ],
)
def test_a_path_has_an_endpoint_for_each_method(method: str, path: str, endpoint: str, names: dict[str, str]) -> None:
    route = ROUTES.at(path)
    assert (route.endpoint(method), route.names) == (endpoint, names)


@pytest.mark.parametrize(
    ("method", "path", "status", "headers"),
    [
        ("GET", "/boats/a/b", 404, ()),
        ("GET", "/Boats", 404, ()),
        ("GET", "/files", 404, ()),
        ("DELETE", "/boats/%FF", 400, ()),
        ("PUT", "/boats", 405, (("Allow", "HEAD, GET, POST, OPTIONS"),)),
        ("HEAD", "/boats/Ida", 405, (("Allow", "DELETE, OPTIONS"),)),
    ],
)
def test_what_is_not_there_is_refused(
    method: str, path: str, status: int, headers: tuple[tuple[str, str], ...]
) -> None:
    with pytest.raises(HttpError) as refusal:
        ROUTES.at(path).endpoint(method)
    assert (refusal.value.status, refusal.value.headers) == (status, headers)


async def _name(request: Request) -> Response:
    return Response(request.names["name"].encode())


def test_a_router_hands_the_names_to_the_handler_and_answers_options_itself() -> None:
    router = Router({"a/{name}": {"GET": _name}})
    assert asyncio.run(router(Request("GET", "/a/x%20y"))).body == b"x y"
    options = asyncio.run(router(Request("OPTIONS", "/a/x")))
    assert (options.status, options.body, options.headers) == (
        200, b"HEAD, GET, OPTIONS", (("Allow", "HEAD, GET, OPTIONS"),),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("lists_paths", "message"), [(False, "HTTP 404 Not Found"), (True, "HTTP 404 Not Found: there is /a/{name}")]
)
def test_a_404_lists_the_paths_where_it_shall(lists_paths: bool, message: str) -> None:
    router = Router({"a/{name}": {"GET": _name}}, lists_paths=lists_paths)
    with pytest.raises(HttpError) as refusal:
        asyncio.run(router(Request("GET", "/b")))
    assert refusal.value.message == message
