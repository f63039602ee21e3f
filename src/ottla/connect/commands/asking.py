"""One call to the REST interface of a Connect worker, ours or Kafka's, as the user that the environment names."""

from __future__ import annotations

import json
import os
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import Request, urlopen

from ottla.cli.faults import Misuse
from ottla.web import credentials as web_credentials
from ottla.web.credentials import Credential, NoCredential

DEFAULT_URL = "http://127.0.0.1:8083"
USER: Final = "OTTLA_CONNECT_USER"
PASSWORD: Final = "OTTLA_CONNECT_PASSWORD"
TOKEN: Final = "OTTLA_CONNECT_TOKEN"
_TIMEOUT_S = 90.0
"""Kafka's workers answer within that time, if only to say that they cannot."""


class CallFailed(Exception):
    """No answer, or one that refuses; the message is a sentence."""


def checked_url(text: str) -> str:
    """The URL without a slash at its end; Misuse if it is none."""
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Misuse(f"--url {text!r} is not the URL of a Connect worker: write http://HOST:PORT")
    return text.rstrip("/")


def escaped(name: str) -> str:
    """A name as a part of a path."""
    return quote(name, safe="")


def ask(url: str, method: str, path: str, body: Any = None) -> Any:
    """The JSON of the answer, None where there is none; CallFailed says what the worker said."""
    content = None if body is None else json.dumps(body).encode()
    headers = {"Accept": "application/json"} | ({"Content-Type": "application/json"} if content else {})
    try:
        headers |= credential_of_environment().headers(url)
    except NoCredential as fault:
        raise CallFailed(f"{TOKEN if os.environ.get(TOKEN) else USER}: {fault}") from None
    request = Request(f"{url}{path}", content, headers, method=method)
    try:
        with urlopen(request, timeout=_TIMEOUT_S) as answer:
            text = answer.read()
    except HTTPError as refusal:
        raise CallFailed(f"the worker at {url} answers {refusal.code}: {_message(refusal.read())}") from None
    except (URLError, TimeoutError, ConnectionError) as fault:
        reason = fault.reason if isinstance(fault, URLError) else fault
        raise CallFailed(
            f"no Connect worker answers at {url} ({reason}); name another with --url, or start one: "
            "`ottla start --connect-port 8083`, or `ottla connect start` beside a broker"
        ) from None
    try:
        return json.loads(text) if text else None
    except ValueError:
        raise CallFailed(f"{url} answers something else than JSON: is it a Connect worker?") from None


def credential_of_environment() -> Credential:
    """The caller whom the environment names; nobody's credential where it names none."""
    return web_credentials.credential_of_environment(USER, PASSWORD, TOKEN)


def _message(content: bytes) -> str:
    """The sentence of a refusal; Kafka's server refuses some paths with a page of HTML."""
    try:
        found = json.loads(content)
        return str(found["message"])
    except (ValueError, KeyError, TypeError):
        return content.decode("utf-8", "replace")[:200] or "nothing more"
