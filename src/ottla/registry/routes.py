"""The endpoint of a method and a path, under a context or not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import unquote

from ottla.registry import reading, writing
from ottla.registry.calls import RegistryCall
from ottla.registry.decide import RegistryDecision
from ottla.registry.records import Json
from ottla.registry.service import Registry
from ottla.registry.state import RegistryState
from ottla.registry.subjects import DEFAULT_CONTEXT
from ottla.web.routes import Route, Routes

Read = Callable[[RegistryState, RegistryCall], Json]
Write = Callable[[RegistryState, RegistryCall], RegistryDecision[Json]]


@dataclass(frozen=True, slots=True)
class ReadRoute:
    """An endpoint that answers from the state. `fresh`: from the state at the end of the topic."""

    do: Read
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class WriteRoute:
    do: Write
    status: int = 200


@dataclass(frozen=True, slots=True)
class Telling:
    """An endpoint that tells something of the registry itself."""

    do: Callable[[Registry], Json]


Endpoint = ReadRoute | WriteRoute | Telling


def _cluster(registry: Registry) -> Json:
    return {"scope": {"path": [], "clusters": {"kafka-cluster": registry.cluster_id}}}


ROUTES: dict[str, dict[str, Endpoint]] = {
    "": {"GET": ReadRoute(reading.root)},
    "subjects": {"GET": ReadRoute(reading.subjects)},
    "subjects/{subject}": {
        "POST": ReadRoute(reading.lookup),
        "DELETE": WriteRoute(writing.delete_subject),
    },
    "subjects/{subject}/metadata": {"GET": ReadRoute(reading.by_metadata)},
    "subjects/{subject}/versions": {
        "GET": ReadRoute(reading.versions),
        "POST": WriteRoute(writing.register_schema),
    },
    "subjects/{subject}/versions/{version}": {
        "GET": ReadRoute(reading.version),
        "DELETE": WriteRoute(writing.delete_version),
    },
    "subjects/{subject}/versions/{version}/schema": {"GET": ReadRoute(reading.version_schema)},
    "subjects/{subject}/versions/{version}/referencedby": {"GET": ReadRoute(reading.referenced_by)},
    "schemas": {"GET": ReadRoute(reading.schemas)},
    "schemas/types": {"GET": ReadRoute(reading.schema_types)},
    "schemas/ids/{id}": {"GET": ReadRoute(reading.schema_by_id)},
    "schemas/ids/{id}/schema": {"GET": ReadRoute(reading.text_by_id)},
    "schemas/ids/{id}/subjects": {"GET": ReadRoute(reading.subjects_by_id)},
    "schemas/ids/{id}/versions": {"GET": ReadRoute(reading.versions_by_id)},
    "schemas/guids/{guid}": {"GET": ReadRoute(reading.schema_by_guid)},
    "schemas/guids/{guid}/ids": {"GET": ReadRoute(reading.ids_by_guid)},
    "contexts": {"GET": ReadRoute(reading.contexts)},
    "contexts/{context}": {"DELETE": WriteRoute(writing.delete_context, status=204)},
    "config": {
        "GET": ReadRoute(reading.settings),
        "PUT": WriteRoute(writing.change_settings),
        "DELETE": WriteRoute(writing.reset_settings),
    },
    "config/{subject}": {
        "GET": ReadRoute(reading.settings),
        "PUT": WriteRoute(writing.change_settings),
        "DELETE": WriteRoute(writing.reset_settings),
    },
    "mode": {
        "GET": ReadRoute(reading.mode),
        "PUT": WriteRoute(writing.change_mode),
        "DELETE": WriteRoute(writing.reset_mode),
    },
    "mode/{subject}": {
        "GET": ReadRoute(reading.mode),
        "PUT": WriteRoute(writing.change_mode),
        "DELETE": WriteRoute(writing.reset_mode),
    },
    "compatibility/subjects/{subject}/versions": {"POST": ReadRoute(reading.compatibility, fresh=True)},
    "compatibility/subjects/{subject}/versions/{version}": {"POST": ReadRoute(reading.compatibility, fresh=True)},
    "v1/metadata/id": {"GET": Telling(_cluster)},
    "v1/metadata/version": {"GET": ReadRoute(reading.server_version)},
}
_ROUTES = Routes(ROUTES)


def route(raw_path: str) -> tuple[Route[Endpoint], str]:
    """The route, and the context for subjects; HttpError 404."""
    parts = raw_path.strip("/").split("/")
    context = DEFAULT_CONTEXT
    if parts[0] == "contexts" and len(parts) > 2:
        context = unquote(parts[1]).strip(":")
        context = context if context.startswith(".") else f".{context}"
        raw_path = "/".join(parts[2:])
    return _ROUTES.at(raw_path), context
