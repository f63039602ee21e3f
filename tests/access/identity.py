"""An identity provider for tests: it signs tokens, shows its keys, gives tokens for client credentials and to users.

Users log in by OpenID Connect's authorization code flow with PKCE: `user` is the one who sits at the browser.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, quote, urlencode

from joserfc import jwt
from joserfc.jwk import ECKey, Key, RSAKey
from joserfc.jws import JWSRegistry

ISSUER, AUDIENCE = "https://identity.example.org/realms/kafka", "kafka"
CONSOLE = "the console"
"""The client for which users log in; its secret is `secret`."""


class Provider:
    """Its keys by `kid`, and the tokens that it signs."""

    def __init__(self) -> None:
        self.keys: dict[str, Key] = {"one": ECKey.generate_key("P-256", {"kid": "one"})}
        self.asked: list[tuple[str, dict[str, list[str]]]] = []
        self.lives_s = 300
        self.now_s = time.time
        self.answers: list[tuple[int, bytes]] = []
        """Answered before its own, each once."""
        self.clients: dict[str, Key] = {}
        """The keys of clients that prove themselves by assertions, by their `iss`."""
        self.issuer = ISSUER
        self.user = "anna"
        """Empty: the user refuses."""
        self.in_id_tokens: dict[str, Any] = {}
        """Claims of ID tokens in place of those that belong there; None leaves one out."""
        self.in_discovery: dict[str, Any] = {}
        self.in_answers: dict[str, Any] = {}
        """Members of answers with tokens to users, as above."""
        self.gives_refresh = False
        self.shows_page = False
        """True if the user has to click at the provider."""
        self.redirects: set[str] = set()
        """The addresses to which browsers may be sent back, as they are registered."""
        self._codes: dict[str, dict[str, str]] = {}
        self._refreshes: dict[str, str] = {}

    def jwks(self, *more: dict[str, Any]) -> bytes:
        shown = [key.as_dict(private=False, kid=kid, use="sig") for kid, key in self.keys.items()]
        return json.dumps({"keys": [*shown, *more]}).encode()

    def claims(self, name: str = "alice", **more: Any) -> dict[str, Any]:
        now = int(self.now_s())
        said = {"sub": name, "iss": self.issuer, "aud": AUDIENCE, "iat": now, "exp": now + self.lives_s} | more
        return {name: value for name, value in said.items() if value is not None}

    def token(self, name: str = "alice", kid: str = "one", header: dict[str, Any] | None = None, **more: Any) -> str:
        key = self.keys[kid]
        algorithm = "RS256" if isinstance(key, RSAKey) else "ES256"
        return jwt.encode({"alg": algorithm, "kid": kid, **(header or {})}, self.claims(name, **more), key)

    def answer(self, path: str, form: dict[str, list[str]], user: str, password: str) -> tuple[int, bytes]:
        self.asked.append((path, form))
        if self.answers:
            return self.answers.pop(0)
        place, _, query = path.partition("?")
        if place == "/jwks":
            return 200, self.jwks()
        if place == "/.well-known/openid-configuration":
            return 200, self._discovery()
        if place == "/authorize" and self.shows_page and "clicked=yes" not in query:
            return (
                200,
                f'<!doctype html><title>x</title><a href="{escape(path)}&amp;clicked=yes">I am here</a>'.encode(),
            )
        if place == "/authorize":
            return 302, self._authorized({name: value for name, [value] in parse_qs(query).items()}).encode()
        if form.get("grant_type") in (["authorization_code"], ["refresh_token"]):
            return self._to_user({name: value for name, [value] in form.items()}, user, password)
        client = user if password == "secret" and form.get("grant_type") == ["client_credentials"] else ""
        client = self._asserted(form) or client
        if not client:
            return 401, b'{"error": "invalid_client"}'
        token = self.token(client, scope=form.get("scope", [None])[0])
        return 200, json.dumps({"access_token": token, "token_type": "Bearer", "expires_in": self.lives_s}).encode()

    def _discovery(self) -> bytes:
        found = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/jwks",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
        } | self.in_discovery
        return json.dumps({name: value for name, value in found.items() if value is not None}).encode()

    def _authorized(self, asked: dict[str, str]) -> str:
        """The address at which the browser goes on."""
        assert asked["client_id"] == CONSOLE
        assert asked["redirect_uri"] in self.redirects, "the redirect URL is registered"
        assert (asked["response_type"], asked["code_challenge_method"]) == ("code", "S256")
        assert "openid" in asked["scope"].split()
        back = {"state": asked["state"], "session_state": "of another specification"}
        if not self.user:
            back |= {"error": "access_denied", "error_description": "the user said <no>"}
        else:
            back["code"] = code = secrets.token_urlsafe(16)
            self._codes[code] = asked | {"user": self.user}
        return f"{asked['redirect_uri']}?{urlencode(back)}"

    def _to_user(self, form: dict[str, str], user: str, password: str) -> tuple[int, bytes]:
        if (user, password) != (quote(CONSOLE), "secret") and (user or form.get("client_id") != CONSOLE):
            return 401, b'{"error": "invalid_client"}'
        if form["grant_type"] == "refresh_token":
            name, nonce = self._refreshes.pop(form["refresh_token"], ""), None
        else:
            asked = self._codes.pop(form["code"], {})
            digest = hashlib.sha256(form["code_verifier"].encode()).digest()
            challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
            proved = (challenge, form["redirect_uri"]) == (asked.get("code_challenge"), asked.get("redirect_uri"))
            name, nonce = asked["user"] if proved else "", asked.get("nonce")
        if not name:
            return 400, b'{"error": "invalid_grant"}'
        access = self.token(name)
        half = hashlib.sha256(access.encode()).digest()[:16]
        claims = {"aud": CONSOLE, "nonce": nonce, "at_hash": base64.urlsafe_b64encode(half).decode().rstrip("=")}
        answer: dict[str, Any] = {"access_token": access, "token_type": "Bearer", "expires_in": self.lives_s}
        answer["id_token"] = self.token(name, **(claims | self.in_id_tokens))
        if self.gives_refresh:
            answer["refresh_token"] = refresh = secrets.token_urlsafe(16)
            self._refreshes[refresh] = name
        answer |= self.in_answers
        return 200, json.dumps({name: value for name, value in answer.items() if value is not None}).encode()

    def _asserted(self, form: dict[str, list[str]]) -> str:
        """The client that an assertion proves, by RFC 7523: traded for a token (2.1) or beside credentials (2.2)."""
        [grant] = form.get("grant_type", [""])
        if grant == "urn:ietf:params:oauth:grant-type:jwt-bearer":
            [text] = form["assertion"]
        elif form.get("client_assertion_type") == ["urn:ietf:params:oauth:client-assertion-type:jwt-bearer"]:
            [text] = form["client_assertion"]
            assert grant == "client_credentials"
        else:
            return ""
        claimed = json.loads(base64.urlsafe_b64decode(text.split(".")[1] + "=="))
        known = self.clients.get(claimed["iss"])
        if known is None:
            return ""
        registry = JWSRegistry(algorithms=["RS256", "ES256"], strict_check_header=False)
        claims = jwt.decode(text, known, registry=registry).claims
        now = self.now_s()
        assert claims["nbf"] <= now < claims["exp"]
        return str(claims["iss"])


class _Handler(BaseHTTPRequestHandler):
    provider: Provider

    def do_GET(self) -> None:
        self._serve({})

    def do_POST(self) -> None:
        size = int(self.headers["Content-Length"])
        self._serve(parse_qs(self.rfile.read(size).decode()))

    def _serve(self, form: dict[str, list[str]]) -> None:
        said = base64.b64decode(self.headers.get("Authorization", "").removeprefix("Basic ")).decode()
        user, _, password = said.partition(":")
        code, content = self.provider.answer(self.path, form, user, password)
        self.send_response(code)
        if code in (301, 302):
            self.send_header("Location", content.decode())
        self.send_header("Content-Type", "text/html" if content.startswith(b"<") else "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments: Any) -> None:
        pass


@contextmanager
def served(provider: Provider) -> Iterator[str]:
    """The provider behind HTTP; gives its URL."""
    handler = type("Handler", (_Handler,), {"provider": provider})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=[0.02])
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
