"""The registry over HTTP: requests to endpoints, bodies and media types in, JSON and error codes out."""

from __future__ import annotations

from ottla.registry.calls import RegistryCall
from ottla.registry.errors import RegistryError
from ottla.registry.records import Json
from ottla.registry.routes import Endpoint, ReadRoute, Telling, route
from ottla.registry.service import Registry
from ottla.web.exchange import HttpError, Request, Response, json_response
from ottla.web.routes import Route

MEDIA_TYPES = (
    "application/vnd.schemaregistry.v1+json",
    "application/vnd.schemaregistry+json",
    "application/json",
)
_BODIES = (*MEDIA_TYPES, "application/octet-stream")


class RegistryApp:
    """Serves one `Registry`."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def __call__(self, request: Request) -> Response:
        media_type = request.accepted(MEDIA_TYPES)
        try:
            found, context = route(request.path)
            if request.method == "OPTIONS":
                return found.options()
            answer, status = await self._answer(request, found, context)
        except HttpError as refusal:
            return refusal.response(media_type)
        return json_response(answer, status, media_type=media_type)

    async def _answer(self, request: Request, found: Route[Endpoint], context: str) -> tuple[Json, int]:
        """The JSON of the answer, and its HTTP status."""
        endpoint = found.endpoint(request.method)
        body = request.json(_BODIES) if request.method in ("POST", "PUT") else None
        call = RegistryCall(found.names, request.query(), body, context)
        if isinstance(endpoint, Telling):
            return endpoint.do(self._registry), 200
        if isinstance(endpoint, ReadRoute):
            return await self._read(endpoint, call), 200
        return await self._registry.write(lambda state: endpoint.do(state, call)), endpoint.status

    async def _read(self, endpoint: ReadRoute, call: RegistryCall) -> Json:
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
