"""The pages of a web service, as a source walks through them: pointers into JSON, and four kinds of offsets. Pure."""

from __future__ import annotations

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

from ottla.connect.errors import DataException
from ottla.connect.plugins.base import SourceOffset

_MISSING: Final = object()
_LINK: Final = re.compile(r'<([^>]*)>((?:\s*;\s*[\w-]+\s*=\s*(?:"[^"]*"|[^";,]*))*)')
_PARAMETER: Final = re.compile(r';\s*([\w-]+)\s*=\s*(?:"([^"]*)"|([^";,\s]*))')


class Pointer:
    """A place in JSON, by RFC 6901: `/data/0/id`; the empty one is the whole."""

    def __init__(self, text: str) -> None:
        if text and not text.startswith("/"):
            raise ValueError("a JSON pointer begins with /")
        self._text = text
        self._steps = [each.replace("~1", "/").replace("~0", "~") for each in text.split("/")[1:]]

    def at(self, content: Any) -> Any:
        """The value there; DataException if there is none."""
        now = content
        for step in self._steps:
            if isinstance(now, dict):
                now = now.get(step, _MISSING)
            elif isinstance(now, list) and step.isascii() and step.isdigit() and int(step) < len(now):
                now = now[int(step)]
            else:
                now = _MISSING
            if now is _MISSING:
                raise DataException(f"there is nothing at {self._text}")
        return now

    def array(self, content: Any) -> list[Any]:
        """The array there."""
        found = self.at(content)
        if not isinstance(found, list):
            raise DataException(f"there is no array at {self._text or 'the top'}, but {_kind(found)}")
        return found

    def text(self, content: Any) -> str:
        """The text or number there, as text."""
        found = self.at(content)
        if isinstance(found, bool) or not isinstance(found, str | int | float):
            raise DataException(f"there is no text at {self._text or 'the top'}, but {_kind(found)}")
        return str(found)


def _kind(value: object) -> str:
    kinds = {dict: "an object", list: "an array", str: "text", bool: "a boolean", type(None): "null"}
    return kinds.get(type(value), "a number")


@dataclass(frozen=True, slots=True)
class Ask:
    """The request for the page at an offset."""

    offset: str = ""
    """It stands for `${offset}` in the address."""
    url: str | None = None
    """Another address than the connector's."""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Page:
    """The items of an answer, and where it goes on."""

    items: Sequence[Any]
    headers: Mapping[str, str]
    """By their names in lower case."""
    body: bytes = b""
    url: str = ""


Found = tuple[Any, dict[str, Any]]
"""An item, and the offset behind it."""


class Paging(ABC):
    """A kind of offsets."""

    keys: tuple[str, ...]
    """The members of an offset."""

    @abstractmethod
    def ask(self, offset: SourceOffset | None) -> Ask:
        """The request for what is behind an offset."""

    @abstractmethod
    def found(self, offset: SourceOffset | None, page: Page) -> list[Found]:
        """The items behind the offset, each with its own."""

    def further(self, offset: SourceOffset | None, page: Page) -> SourceOffset | None:
        """The offset of the next page, where this one has nothing new and does not hold it in an item's offset."""
        return None


class ByField(Paging):
    """A field of each record is its offset, and the service gives records from an offset on, in its order.

    Services that include the offset's own record are understood: as many records with it are left out as were read.
    """

    keys = ("offset", "seen")

    def __init__(self, pointer: Pointer, initial: str) -> None:
        self._pointer, self._initial = pointer, initial

    def ask(self, offset: SourceOffset | None) -> Ask:
        return Ask(self._initial if offset is None else offset["offset"])

    def found(self, offset: SourceOffset | None, page: Page) -> list[Found]:
        last, seen = (None, 0) if offset is None else (offset["offset"], offset["seen"])
        made: list[Found] = []
        same = 0
        for item in page.items:
            here = self._pointer.text(item)
            if offset is not None and here == offset["offset"] and same < offset["seen"]:
                same += 1
                continue
            last, seen = here, (seen + 1 if here == last else 1)
            made.append((item, {"offset": last, "seen": seen}))
        return made


class ByPage(Paging):
    """Pages have names: the service says in an answer's header which one is next. The last one may still grow."""

    keys = ("page", "taken")

    def __init__(self, initial: str, header: str | None) -> None:
        """`header`: the one that holds the next offset; None takes the link with `rel="next"`."""
        self._initial, self._header = initial, header

    def ask(self, offset: SourceOffset | None) -> Ask:
        name = None if offset is None else offset["page"]
        if self._header is None:
            return Ask(self._initial, url=name)
        return Ask(self._initial if name is None else name)

    def found(self, offset: SourceOffset | None, page: Page) -> list[Found]:
        name, taken = (None, 0) if offset is None else (offset["page"], offset["taken"])
        made: list[Found] = [
            (item, {"page": name, "taken": at}) for at, item in enumerate(page.items[taken:], taken + 1)
        ]
        following = self._next(page)
        if made and following is not None and following != name:
            made[-1] = (made[-1][0], {"page": following, "taken": 0})
        return made

    def further(self, offset: SourceOffset | None, page: Page) -> SourceOffset | None:
        following, name = self._next(page), None if offset is None else offset["page"]
        return None if following is None or following == name else {"page": following, "taken": 0}

    def _next(self, page: Page) -> str | None:
        if self._header is not None:
            return page.headers.get(self._header.lower())
        for match in _LINK.finditer(page.headers.get("link", "")):
            if any(
                name == "rel" and "next" in f"{one}{other}".split() for name, one, other in _PARAMETER.findall(match[2])
            ):
                return urljoin(page.url, str(match[1]))
        return None


class ByVersion(Paging):
    """The address holds one document, which changes: each version of it is read whole, by its ETag or its content."""

    keys = ("version", "taken", "done")

    def ask(self, offset: SourceOffset | None) -> Ask:
        known = offset is not None and offset["done"] and offset["version"].startswith(('"', "W/"))
        return Ask(headers={"If-None-Match": offset["version"]} if known and offset is not None else {})

    def found(self, offset: SourceOffset | None, page: Page) -> list[Found]:
        version = page.headers.get("etag") or hashlib.sha256(page.body).hexdigest()
        taken = offset["taken"] if offset is not None and offset["version"] == version else 0
        count = len(page.items)
        return [
            (item, {"version": version, "taken": at, "done": at == count})
            for at, item in enumerate(page.items[taken:], taken + 1)
        ]


def same_origin(first: str, second: str) -> bool:
    """True if both addresses are of one server: only there a secret may be sent."""
    one, other = urlsplit(first), urlsplit(second)
    return (one.scheme, one.hostname, one.port) == (other.scheme, other.hostname, other.port)


def is_offset(paging: Paging, offset: Mapping[str, Any]) -> bool:
    """True if an offset has the members of its kind."""
    kinds: dict[str, type | tuple[type, ...]] = {
        "offset": str, "version": str, "page": (str, type(None)), "seen": int, "taken": int, "done": bool,
    }  # fmt: skip
    if set(offset) != set(paging.keys):
        return False
    values = json.loads(json.dumps(offset))
    return all(
        isinstance(values[key], kinds[key]) and (key == "done") == isinstance(values[key], bool) for key in values
    )
