"""The endpoint of a method and a path. Paths are cut before they are decoded: a name may hold a slash as %2F. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Generic, TypeVar
from urllib.parse import unquote

from ottla.web.exchange import Handler, HttpError, Request, Response

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Route(Generic[T]):
    """A path that is served: an endpoint for each method, and the names in the path."""

    endpoints: Mapping[str, T]
    names: Mapping[str, str]

    @property
    def methods(self) -> list[str]:
        """All methods that are answered here."""
        return [*(["HEAD"] if "GET" in self.endpoints else []), *self.endpoints, "OPTIONS"]

    def options(self) -> Response:
        """The answer to OPTIONS."""
        allowed = ", ".join(self.methods)
        return Response(allowed.encode(), headers=(("Allow", allowed),))

    def endpoint(self, method: str) -> T:
        """The endpoint of a method, that of GET for HEAD; HttpError 405 lists the methods there are."""
        found = self.endpoints.get("GET" if method == "HEAD" else method)
        if found is None:
            raise HttpError(405, headers=(("Allow", ", ".join(self.methods)),))
        return found


class Routes(Generic[T]):
    """A table of `a/{name}/b` or `a/{rest...}` to the endpoints by method. The first path that fits counts."""

    def __init__(self, table: Mapping[str, Mapping[str, T]]) -> None:
        self._cut = [(_parts(path), endpoints) for path, endpoints in table.items()]

    def at(self, raw_path: str) -> Route[T]:
        """The route of a path, without regard to slashes at its ends; HttpError 404 if there is none."""
        parts = _parts(raw_path)
        for pattern, endpoints in self._cut:
            names = _match(pattern, parts)
            if names is not None:
                return Route(endpoints, names)
        raise HttpError(404)


class Router:
    """A handler that lets the handler of the route answer, and OPTIONS itself."""

    def __init__(self, table: Mapping[str, Mapping[str, Handler]], *, lists_paths: bool = False) -> None:
        """With `lists_paths` the message of a 404 lists the paths there are."""
        self._routes = Routes(table)
        self._missing = f"HTTP 404 Not Found: there is {', '.join(f'/{path}' for path in table)}" if lists_paths else ""

    async def __call__(self, request: Request) -> Response:
        try:
            route = self._routes.at(request.path)
        except HttpError as refusal:
            raise HttpError(refusal.status, self._missing or refusal.message) from refusal
        if request.method == "OPTIONS":
            return route.options()
        return await route.endpoint(request.method)(replace(request, names=route.names))


def _parts(path: str) -> list[str]:
    return path.strip("/").split("/")


def _match(pattern: list[str], parts: list[str]) -> dict[str, str] | None:
    """The names in a path of this pattern; None if it is of another."""
    if pattern[-1].endswith("...}") and len(parts) > len(pattern):
        parts = [*parts[: len(pattern) - 1], "/".join(parts[len(pattern) - 1 :])]
    if len(pattern) != len(parts):
        return None
    names = {}
    for wanted, part in zip(pattern, parts, strict=True):
        if wanted.startswith("{"):
            names[wanted[1:-1].removesuffix("...")] = _decoded(part)
        elif wanted != part:
            return None
    return names


def _decoded(part: str) -> str:
    try:
        return unquote(part, errors="strict")
    except UnicodeDecodeError as fault:
        raise HttpError(400, f"HTTP 400 Bad Request: {part} in the path is not text in UTF-8") from fault
