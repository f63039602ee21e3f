"""The registry over HTTP: requests to endpoints, bodies and media types in, JSON and error codes out."""

from __future__ import annotations

from ottla.jobs.caller import HttpCaller
from ottla.jobs.caller_rights import CallerOf, anybody
from ottla.registry.calls import RegistryCall
from ottla.registry.decide import RegistryDecision
from ottla.registry.errors import RegistryError
from ottla.registry.records import Json
from ottla.registry.rights import require, seen_by
from ottla.registry.routes import Endpoint, ReadRoute, Telling, route
from ottla.registry.service import Registry
from ottla.registry.state import RegistryState
from ottla.web.exchange import HttpError, Request, Response, json_response
from ottla.web.routes import Route

MEDIA_TYPES = (
    "application/vnd.schemaregistry.v1+json",
    "application/vnd.schemaregistry+json",
    "application/json",
)
_BODIES = (*MEDIA_TYPES, "application/octet-stream")


class RegistryApp:
    """Serves one `Registry`. Each call is held against the rights of its caller before it has an effect."""

    def __init__(self, registry: Registry, caller_of: CallerOf = anybody) -> None:
        self._registry = registry
        self._caller_of = caller_of

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
        caller = await self._caller_of(request)
        if isinstance(endpoint, Telling):
            return endpoint.do(self._registry), 200
        if isinstance(endpoint, ReadRoute):
            return await self._read(endpoint, call, caller), 200

        def decide(state: RegistryState) -> RegistryDecision[Json]:
            require(endpoint.rights, caller, state, call)
            return endpoint.do(state, call)

        return await self._registry.write(decide), endpoint.status

    async def _read(self, endpoint: ReadRoute, call: RegistryCall, caller: HttpCaller) -> Json:
        """Answer from what this instance knows; "not found" only after reading to the end of the topic."""
        state = self._registry.state

        def answer() -> Json:
            require(endpoint.rights, caller, state, call)
            return endpoint.do(seen_by(caller, state), call)

        if endpoint.fresh:
            await self._registry.fresh()
        try:
            return answer()
        except RegistryError as refusal:
            if refusal.status != 404 or endpoint.fresh:
                raise
        await self._registry.fresh()
        return answer()
