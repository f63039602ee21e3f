"""A request and its response as handlers see them, and the refusals that become errors in JSON. Pure."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

from ottla.config.option import nearest

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"
Json = Any
"""A value of JSON, as `json` reads it."""
Subject = tuple[tuple[tuple[str, str], ...], ...]
"""The subject of a certificate as `ssl` gives it: relative names, each of one or more (attribute, value)."""


class HttpError(Exception):
    """A refusal. Its body is `{"error_code": code, "message": message}`; the code is the status unless one is given."""

    def __init__(
        self, status: int, message: str = "", *, code: int | None = None, headers: tuple[tuple[str, str], ...] = ()
    ) -> None:
        self.status = status
        self.message = message or _standard(status)
        self.code = status if code is None else code
        self.headers = headers
        super().__init__(self.message)

    def response(self, media_type: str = JSON) -> Response:
        """The refusal as an answer."""
        body = {"error_code": self.code, "message": self.message}
        return json_response(body, self.status, media_type=media_type, headers=self.headers)


@dataclass(slots=True)
class Request:
    """One request with its whole body. The path is as it was sent; names of headers are in lower case."""

    method: str
    path: str
    query_string: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    client: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    """The decoded parts of the path that stand for `{name}` in its route."""
    user: str = ""
    """The user whose password or token came with the request; empty where neither is asked for."""
    subject: Subject = ()
    """The subject of the certificate that the client showed in TLS; empty without one."""

    def query(self, known: Collection[str] | None = None) -> dict[str, list[str]]:
        """The parameters. HttpError 400 names one that is not in `known`; with None all are taken."""
        try:
            given = parse_qs(self.query_string, keep_blank_values=True, errors="strict")
        except UnicodeDecodeError as fault:
            raise HttpError(400, f"HTTP 400 Bad Request: a parameter is not text in UTF-8: {fault.reason}") from fault
        for name in given if known is not None else ():
            if name not in (known or ()):
                there = ", ".join(sorted(known or ())) or "none"
                raise HttpError(
                    400, f"HTTP 400 Bad Request: no parameter {name!r}{nearest(name, known or ())}; there are: {there}"
                )
        return given

    def json(self, kinds: Collection[str] = (JSON,), *, untyped: bool = True) -> Json:
        """The body as JSON. HttpError 415 if Content-Type is none of `kinds`, 400 if the body is no JSON.

        A body without a type is taken for the first kind, or refused by 415 too where `untyped` is false.
        """
        kind = self.headers.get("content-type", next(iter(kinds)) if untyped else "").split(";")[0].strip().lower()
        if kind not in kinds:
            raise HttpError(415, f"HTTP 415 Unsupported Media Type: send {' or '.join(kinds)}")
        try:
            value = json.loads(self.body)
            json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
        except (ValueError, RecursionError) as fault:
            raise HttpError(400, f"HTTP 400: the body is no JSON: {fault}") from fault
        return value

    def accepted(self, offered: Sequence[str], *, strict: bool = False) -> str:
        """The first media type of Accept that is offered.

        Where none is, it is the first that is offered; with `strict` it is HttpError 406, unless Accept is not sent.
        """
        wanted = [each.split(";")[0].strip().lower() for each in self.headers.get("accept", "*/*").split(",")]
        for each in wanted:
            for kind in offered:
                if each in (kind, "*/*", f"{kind.partition('/')[0]}/*"):
                    return kind
        if strict:
            raise HttpError(406, f"HTTP 406 Not Acceptable: there is {' or '.join(offered)}")
        return offered[0]


@dataclass(slots=True)
class Response:
    """An answer. A body of many pieces is sent as they come; an `endless` one is cut when the server stops."""

    body: bytes | AsyncGenerator[bytes, None] = b""
    media_type: str = TEXT
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    endless: bool = False


Handler = Callable[[Request], Awaitable[Response]]
"""Answers one request; raises HttpError to refuse it."""


def json_response(
    value: Json, status: int = 200, *, media_type: str = JSON, headers: tuple[tuple[str, str], ...] = ()
) -> Response:
    """A value as JSON; no body with 204."""
    text = "" if status == 204 else json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Response(text.encode("utf-8", "replace"), media_type, status, headers)


def _standard(status: int) -> str:
    from http import HTTPStatus

    return f"HTTP {status} {HTTPStatus(status).phrase}"
