"""The registry over HTTP, as an ASGI application: bodies and media types in, JSON and error codes out."""

from __future__ import annotations

import json
import logging
from urllib.parse import parse_qs

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ottla.registry.calls import Call
from ottla.registry.errors import RegistryError
from ottla.registry.records import Json
from ottla.registry.routes import Reading, route
from ottla.registry.service import Registry

MEDIA_TYPES = (
    "application/vnd.schemaregistry.v1+json",
    "application/vnd.schemaregistry+json",
    "application/json",
)
_BODIES = frozenset({*MEDIA_TYPES, "application/octet-stream"})
MAX_BODY_BYTES = 4 * 1024 * 1024
_log = logging.getLogger(__name__)


class RegistryApp:
    """Serves one `Registry`."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        try:
            answer, status = await self._answer(request)
        except RegistryError as refusal:
            answer, status = {"error_code": refusal.code, "message": refusal.message}, refusal.status
        except ClientDisconnect:
            return
        except Exception:
            _log.exception("%s %s failed", request.method, request.url.path)
            answer, status = {"error_code": 50001, "message": "The registry failed in a way it did not foresee"}, 500
        body = (
            b""
            if status == 204
            else json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
        )
        response = Response(body, status, media_type=_media_type(request))
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> tuple[Json, int]:
        """The JSON of the answer, and its HTTP status."""
        raw_path = request.scope.get("raw_path") or request.scope["path"].encode()
        path = raw_path.decode("latin-1")
        if path.strip("/") == "v1/metadata/id":
            return {"scope": {"path": [], "clusters": {"kafka-cluster": self._registry.cluster_id}}}, 200
        endpoint, names, context = route("GET" if request.method == "HEAD" else request.method, path)
        body = await _body(request) if request.method in ("POST", "PUT") else None
        query = parse_qs(request.scope["query_string"].decode("latin-1"), keep_blank_values=True)
        call = Call(names, query, body, context)
        if isinstance(endpoint, Reading):
            return await self._read(endpoint, call), 200
        return await self._registry.write(lambda state: endpoint.do(state, call)), endpoint.status

    async def _read(self, endpoint: Reading, call: Call) -> Json:
        """Answer from what this instance knows; "not found" only after reading to the end of the topic."""
        if endpoint.fresh:
            await self._registry.fresh()
        try:
            return endpoint.do(self._registry.state, call)
        except RegistryError as refusal:
            if refusal.status != 404 or endpoint.fresh:
                raise
        await self._registry.fresh()
        return endpoint.do(self._registry.state, call)


def _media_type(request: Request) -> str:
    accepted = request.headers.get("accept", "")
    offered = [each.split(";")[0].strip() for each in accepted.split(",")]
    return next((each for each in offered if each in MEDIA_TYPES), MEDIA_TYPES[0])


async def _body(request: Request) -> Json:
    """The body as JSON; RegistryError 413, 415 or 400 if it is none."""
    kind = request.headers.get("content-type", MEDIA_TYPES[0]).split(";")[0].strip().lower()
    if kind not in _BODIES:
        raise RegistryError(415, f"HTTP 415 Unsupported Media Type: send {MEDIA_TYPES[0]} or application/json")
    content = bytearray()
    async for piece in request.stream():
        content += piece
        if len(content) > MAX_BODY_BYTES:
            raise RegistryError(413, f"HTTP 413: the body is larger than {MAX_BODY_BYTES} bytes")
    try:
        body = json.loads(content)
        json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
        return body
    except (ValueError, RecursionError) as fault:
        raise RegistryError(400, f"HTTP 400: the body is no JSON: {fault}") from fault
