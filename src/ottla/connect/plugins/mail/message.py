"""A message of mail as values: its headers and text, and its attachments, within it or as records of their own."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from email import policy
from email.message import EmailMessage
from email.parser import BytesParser
from email.utils import getaddresses, parsedate_to_datetime
from functools import cache, lru_cache
from typing import Any, Final

from ottla.connect.checks import non_empty_text, one_of
from ottla.connect.claims import check_in, open_store
from ottla.connect.config_def import Importance, Option, Type
from ottla.connect.errors import DataException

INLINE, RECORDS, NONE = "inline", "records", "none"
Place = Callable[[bytes], Mapping[str, Any]]
"""Puts content somewhere, and gives the members that say where."""
_PEOPLE: Final = ("from", "to", "cc", "reply-to")


def attachment_options() -> tuple[Option, ...]:
    """The options of all connectors that read mail."""
    return (
        Option("mail.attachments", Type.STRING, INLINE, Importance.MEDIUM, "inline: within the message. records: a "
               "record for each, behind its message. none: only their names and sizes.",
               one_of(INLINE, RECORDS, NONE)),
        Option("claim.store", Type.STRING, None, Importance.MEDIUM, "Where contents go, so that records have a "
               "reference: a directory, or s3://BUCKET/PATH. None: records have the content as Base64.",
               non_empty_text),
    )  # fmt: skip


_POLICY: Final = policy.default.clone(header_factory=lru_cache(64)(policy.default.header_factory))
"""The standard parser takes a header apart each time it is asked for: some thirty times a message."""


@cache
def place_of(store_url: str | None) -> Place:
    """The place for contents: a store, or the record itself."""
    if store_url is None:
        return lambda content: {"content": base64.b64encode(content).decode(), "bytes": len(content)}
    store = open_store(store_url)
    return lambda content: check_in(store, content)


def values_of(content: bytes, attachments: str, place: Place) -> Iterator[dict[str, Any]]:
    """The values of a message: itself, then its attachments where these are records; DataException if it is none.

    Content that was put somewhere is there for good before its value is given.
    """
    try:
        message = BytesParser(policy=_POLICY).parsebytes(content)
        assert isinstance(message, EmailMessage)
        made = _head(message)
        files = [_file(number, each) for number, each in enumerate(message.iter_attachments(), 1)]
    except (ValueError, LookupError, TypeError, AttributeError, AssertionError) as fault:
        # The standard parser raises these on headers and encodings that are broken in ways it does not know.
        raise DataException(f"the message cannot be parsed: {type(fault).__name__}: {fault}") from fault
    if not made["headers"]:
        raise DataException("the file is no message: it has no header")
    placed = [{**about, **(place(body) if attachments != NONE else {"bytes": len(body)})} for about, body in files]
    told = ("number", "name", "type", "bytes")
    shown = [{key: each[key] for key in told} for each in placed] if attachments == RECORDS else placed
    yield {"kind": "message", **made, "attachments": shown}
    if attachments == RECORDS:
        for each in placed:
            yield {"kind": "attachment", "message_id": made["message_id"], "subject": made["subject"], **each}


def _head(message: EmailMessage) -> dict[str, Any]:
    headers: dict[str, list[str]] = {}
    for name, value in message.items():
        headers.setdefault(name.lower(), []).append(str(value))
    made: dict[str, Any] = {
        "message_id": headers.get("message-id", [None])[0], "subject": headers.get("subject", [None])[0],
        "date": _date(headers.get("date", [""])[0]),
    }  # fmt: skip
    for name in _PEOPLE:
        people = getaddresses(headers.get(name, []))
        made[name.replace("-", "_")] = [{"name": person, "address": address} for person, address in people]
    for kind, subtype in (("text", "plain"), ("html", "html")):
        body = message.get_body((subtype,))
        made[kind] = None if body is None else body.get_content()
    return {**made, "headers": headers}


def _date(text: str) -> str | None:
    """The time in ISO 8601; None for one that is none, which stays among the headers."""
    try:
        return parsedate_to_datetime(text).isoformat()
    except ValueError:
        return None


def _file(number: int, part: Any) -> tuple[dict[str, Any], bytes]:
    """The name, type and content of an attachment. A message within is an attachment as a whole."""
    if part.get_content_maintype() == "message" or part.is_multipart():
        inner = part.get_payload(0) if part.get_content_type() == "message/rfc822" else part
        content = inner.as_bytes()
    else:
        content = part.get_payload(decode=True) or b""
    return {"number": number, "name": part.get_filename(), "type": part.get_content_type()}, content
