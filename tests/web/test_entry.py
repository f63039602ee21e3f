"""The way into a server of HTTP: TLS that follows its files, passwords, tokens."""

from __future__ import annotations

import asyncio
import base64
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.access.certificates import authority

from ottla.config.passwords import UsersFile
from ottla.web.entry import Asked, TokenRefused, https_context
from ottla.web.exchange import HttpError, Request, Response
from ottla.web.server import listening, serving, url_of
from ottla.web.thread import LoopThread


async def said(request: Request) -> Response:
    return Response(b"here", "text/plain")


@pytest.fixture
def users(tmp_path: Path) -> Path:
    path = tmp_path / "users"
    path.write_text("alice=hunter2\n")
    return path


@pytest.fixture
def served(tmp_path: Path, users: Path) -> Iterator[str]:
    """The URL of a server with the files of the test's folder."""
    ours = authority("first")
    (tmp_path / "ca.pem").write_text(ours.certificate_pem)
    ours.sign("server").file(tmp_path)
    bound = listening("127.0.0.1", 0)
    context = https_context({"listeners.https.ssl.keystore.location": str(tmp_path / "key.pem")})
    handler = Asked(said, UsersFile(str(users)), "test")
    with LoopThread("test", lambda: serving(handler, bound, ssl_context=context)):
        yield url_of("127.0.0.1", bound, scheme="https")


def get(url: str, trusted: Path, user: str = "alice:hunter2") -> int:
    header = {"Authorization": "Basic " + base64.b64encode(user.encode()).decode()} if user else {}
    context = ssl.create_default_context(cafile=trusted)
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=header), context=context, timeout=20) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as fault:
        assert "ottla" not in fault.read().decode()
        return fault.code


def test_a_password_is_asked_for_over_tls(served: str, tmp_path: Path) -> None:
    assert get(served, tmp_path / "ca.pem") == 200
    for wrong in ("", "alice:x", "bob:hunter2", "alice", ":"):
        assert get(served, tmp_path / "ca.pem", wrong) == 401


class Owners:
    """Knows one token."""

    def owner(self, token: str) -> str:
        if token != "good":
            raise TokenRefused("it has expired")
        return "anna"


@pytest.mark.parametrize("with_users", [True, False])
def test_a_token_names_a_user_too_and_a_refusal_says_what_is_taken(users: Path, *, with_users: bool) -> None:
    seen: list[str] = []

    async def noting(request: Request) -> Response:
        seen.append(request.user)
        return Response(b"here", "text/plain")

    asked = Asked(noting, UsersFile(str(users)) if with_users else None, "test", Owners())

    def status(header: str) -> int | HttpError:
        request = Request("GET", "/", headers={"authorization": header})
        try:
            return asyncio.run(asked(request)).status
        except HttpError as refusal:
            return refusal

    password = "Basic " + base64.b64encode(b"alice:hunter2").decode()
    assert status("Bearer good") == 200
    assert status("bearer  good") == 200
    if with_users:
        assert status(password) == 200
    assert seen == ["anna", "anna", *(["alice"] if with_users else [])]
    basic = [("WWW-Authenticate", 'Basic realm="test", charset="UTF-8"')] if with_users else []
    for header, challenge in (
        ("", 'Bearer realm="test"'),
        ("Basic x" if with_users else password, 'Bearer realm="test"'),
        ("Bearer old", 'Bearer realm="test", error="invalid_token"'),
        ("Bearer", 'Bearer realm="test", error="invalid_token"'),
    ):
        refusal = status(header)
        assert isinstance(refusal, HttpError)
        assert (refusal.status, list(refusal.headers)) == (401, [*basic, ("WWW-Authenticate", challenge)])


def test_another_certificate_and_other_users_are_taken_without_a_restart(
    served: str, tmp_path: Path, users: Path
) -> None:
    assert get(served, tmp_path / "ca.pem") == 200
    other = authority("second")
    (tmp_path / "second.pem").write_text(other.certificate_pem)
    other.sign("server").file(tmp_path)
    assert get(served, tmp_path / "second.pem") == 200
    with pytest.raises(urllib.error.URLError, match="certificate verify failed"):
        get(served, tmp_path / "ca.pem")
    users.write_text("alice=another one\n")
    assert get(served, tmp_path / "second.pem") == 401
    assert get(served, tmp_path / "second.pem", "alice:another one") == 200
    users.unlink()
    assert get(served, tmp_path / "second.pem", "alice:another one") == 401


@pytest.mark.parametrize(
    ("text", "reason"), [("", "names no user"), ("alice", "user 'alice' has no password"), ("a=\\u1", "NAME=PASSWORD")]
)
def test_a_file_of_users_that_cannot_be_used_says_why(users: Path, text: str, reason: str) -> None:
    users.write_text(text)
    with pytest.raises(ValueError, match=reason):
        UsersFile(str(users))
    with pytest.raises(ValueError, match="No such file"):
        UsersFile(str(users) + "-not-there")


async def told(request: Request) -> Response:
    return Response(f"{request.user} {request.subject}".encode(), "text/plain")


def test_a_handler_is_told_the_user_and_the_owner_of_the_certificate(tmp_path: Path, users: Path) -> None:
    ours = authority()
    (tmp_path / "ca.pem").write_text(ours.certificate_pem)
    ours.sign("server").file(tmp_path)
    texts = {"ssl.keystore.location": str(tmp_path / "key.pem"), "ssl.truststore.location": str(tmp_path / "ca.pem"),
             "ssl.client.auth": "requested"}  # fmt: skip
    bound = listening("127.0.0.1", 0)
    handler = Asked(told, UsersFile(str(users)), "test")
    client = ssl.create_default_context(cafile=tmp_path / "ca.pem")
    header = {"Authorization": "Basic " + base64.b64encode(b"alice:hunter2").decode()}
    said = []
    with LoopThread("test", lambda: serving(handler, bound, ssl_context=https_context(texts))):
        for shows in (False, True):
            if shows:
                client.load_cert_chain(ours.sign("bob").file(tmp_path, "bob.pem"))
            request = urllib.request.Request(url_of("127.0.0.1", bound, scheme="https"), headers=header)
            with urllib.request.urlopen(request, context=client, timeout=20) as answer:
                said.append(answer.read().decode())
    assert said[0] == "alice ()"
    assert said[1].startswith("alice (((")
    assert "('commonName', 'bob')" in said[1]


def test_tls_without_a_key_is_refused() -> None:
    with pytest.raises(ValueError, match=r"set ssl\.keystore\.location"):
        https_context({})
    with pytest.raises(ValueError, match=r"ssl\.client\.auth must be one of"):
        https_context({"ssl.client.auth": "perhaps"})
