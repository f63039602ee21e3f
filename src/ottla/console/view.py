"""A page before it is drawn: a template and its values, which are also the page's answer as JSON. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import parse_qs

from ottla.config.option import nearest
from ottla.web.exchange import HttpError, Request, Response

FORM = "application/x-www-form-urlencoded"
Values = dict[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class View:
    """A template, the title of the page, and the values that both the page and `/api/v1/…` show."""

    template: str
    title: str
    values: Values
    status: int = 200

    def plain(self) -> Values:
        """The values as JSON takes them."""
        return {name: _plain(value) for name, value in self.values.items()}


class PageQuery:
    """The parameters of a page, each given once. HttpError 400 says what is wrong with one."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self.given = dict(given)

    @classmethod
    def of(cls, request: Request, known: Collection[str]) -> PageQuery:
        """The parameters in a URL; one that is not known, or given twice, is refused by name."""
        return cls.single(request.query(known))

    @classmethod
    def of_form(cls, request: Request) -> PageQuery:
        """The fields of a form."""
        kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
        if kind != FORM:
            raise HttpError(415, f"HTTP 415 Unsupported Media Type: send {FORM}")
        try:
            given = parse_qs(request.body.decode(), keep_blank_values=True, errors="strict", max_num_fields=10_000)
        except ValueError as fault:
            raise wrong(f"the form cannot be read: {fault}") from None
        return cls.single(given)

    @classmethod
    def single(cls, given: Mapping[str, list[str]]) -> PageQuery:
        """Parameters that were read as lists."""
        for name, values in given.items():
            if len(values) > 1:
                raise wrong(f"{name} is given {len(values)} times")
        return cls({name: values[0] for name, values in given.items()})

    def text(self, name: str, default: str = "") -> str:
        """A text without blanks at its ends; the default where it is empty."""
        return self.given.get(name, "").strip() or default

    def need(self, name: str) -> str:
        """A text that must be there; blanks belong to it, as names may have some."""
        found = self.given.get(name, "")
        if not found:
            raise wrong(f"the parameter {name!r} is missing")
        return found

    def count(self, name: str, default: int, *, least: int = 0, most: int = 2**63 - 1) -> int:
        """A whole number between bounds."""
        text = self.text(name)
        if not text:
            return default
        if not (text.isascii() and text.removeprefix("-").isdigit()):
            raise wrong(f"{name}={text!r} is not a whole number")
        if not least <= int(text) <= most:
            raise wrong(f"{name}={text}: there are {least} to {most}")
        return int(text)

    def choice(self, name: str, choices: Collection[str], default: str) -> str:
        """One of some words."""
        text = self.text(name, default)
        if text not in choices:
            raise wrong(f"{name}={text!r} is not one of {', '.join(choices)}{nearest(text, choices)}")
        return text

    def flag(self, name: str) -> bool:
        """True if a box is ticked."""
        return self.choice(name, ("", "yes"), "") == "yes"


def see(place: str, *headers: tuple[str, str]) -> Response:
    """Send the browser to another page."""
    return Response(b"", status=303, headers=(("Location", place), ("Cache-Control", "no-store"), *headers))


def wrong(sentence: str) -> HttpError:
    """A refusal of the request."""
    return HttpError(400, sentence)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            each.name: _plain(getattr(value, each.name)) for each in dataclasses.fields(value) if each.name[0] != "_"
        }
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 2**53:
        return str(value)  # readers of JSON in browsers have doubles
    return value
