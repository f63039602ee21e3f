"""An identity provider for tests: it signs tokens, shows its keys, and gives tokens for client credentials."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from joserfc import jwt
from joserfc.jwk import ECKey, Key, RSAKey
from joserfc.jws import JWSRegistry

ISSUER, AUDIENCE = "https://identity.example.org/realms/kafka", "kafka"


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

    def jwks(self, *more: dict[str, Any]) -> bytes:
        shown = [key.as_dict(private=False, kid=kid, use="sig") for kid, key in self.keys.items()]
        return json.dumps({"keys": [*shown, *more]}).encode()

    def claims(self, name: str = "alice", **more: Any) -> dict[str, Any]:
        now = int(self.now_s())
        said = {"sub": name, "iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": now + self.lives_s} | more
        return {name: value for name, value in said.items() if value is not None}

    def token(self, name: str = "alice", kid: str = "one", header: dict[str, Any] | None = None, **more: Any) -> str:
        key = self.keys[kid]
        algorithm = "RS256" if isinstance(key, RSAKey) else "ES256"
        return jwt.encode({"alg": algorithm, "kid": kid, **(header or {})}, self.claims(name, **more), key)

    def answer(self, path: str, form: dict[str, list[str]], user: str, password: str) -> tuple[int, bytes]:
        self.asked.append((path, form))
        if self.answers:
            return self.answers.pop(0)
        if path == "/jwks":
            return 200, self.jwks()
        client = user if password == "secret" and form.get("grant_type") == ["client_credentials"] else ""
        client = self._asserted(form) or client
        if not client:
            return 401, b'{"error": "invalid_client"}'
        token = self.token(client, scope=form.get("scope", [None])[0])
        return 200, json.dumps({"access_token": token, "token_type": "Bearer", "expires_in": self.lives_s}).encode()

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
        self.send_header("Content-Type", "application/json")
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
