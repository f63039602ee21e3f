"""Files of a package for browsers: scripts, styles, pictures. They are read once, so no path leads elsewhere."""

from __future__ import annotations

import hashlib
from importlib.resources import files
from importlib.resources.abc import Traversable

from ottla.web.exchange import HttpError, Request, Response

_TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "ico": "image/x-icon",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "png": "image/png",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
    "woff2": "font/woff2",
}


class StaticFiles:
    """A handler for the route `static/{path...}`. ValueError if the media type of a file is not known."""

    def __init__(self, package: str, folder: str = "static") -> None:
        self._found = {path: _answer(path, found.read_bytes()) for path, found in _below(files(package) / folder)}

    async def __call__(self, request: Request) -> Response:
        found = self._found.get(request.names["path"])
        if found is None:
            raise HttpError(404)
        known = request.headers.get("if-none-match", "")
        tags = {each.strip().removeprefix("W/") for each in known.split(",")}
        if known.strip() == "*" or dict(found.headers)["ETag"] in tags:
            return Response(status=304, headers=found.headers)
        return found


def _below(folder: Traversable, prefix: str = "") -> list[tuple[str, Traversable]]:
    found = []
    for each in folder.iterdir():
        path = prefix + each.name
        found += _below(each, path + "/") if each.is_dir() else [(path, each)]
    return found


def _answer(path: str, content: bytes) -> Response:
    """A file as it is sent: browsers keep it, and ask each time whether it is still the same."""
    suffix = path.rpartition(".")[2]
    if suffix not in _TYPES:
        raise ValueError(f"{path}: no media type for .{suffix}; there are: {', '.join(_TYPES)}")
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers = (("ETag", tag), ("Cache-Control", "no-cache"), ("X-Content-Type-Options", "nosniff"))
    return Response(content, _TYPES[suffix], headers=headers)
