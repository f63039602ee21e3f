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
class Reading:
    """An endpoint that answers from the state. `fresh`: from the state at the end of the topic."""

    do: Read
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class Writing:
    do: Write
    status: int = 200


@dataclass(frozen=True, slots=True)
class Telling:
    """An endpoint that tells something of the registry itself."""

    do: Callable[[Registry], Json]


Endpoint = Reading | Writing | Telling


def _cluster(registry: Registry) -> Json:
    return {"scope": {"path": [], "clusters": {"kafka-cluster": registry.cluster_id}}}


ROUTES: dict[str, dict[str, Endpoint]] = {
    "": {"GET": Reading(reading.root)},
    "subjects": {"GET": Reading(reading.subjects)},
    "subjects/{subject}": {
        "POST": Reading(reading.lookup),
        "DELETE": Writing(writing.delete_subject),
    },
    "subjects/{subject}/metadata": {"GET": Reading(reading.by_metadata)},
    "subjects/{subject}/versions": {
        "GET": Reading(reading.versions),
        "POST": Writing(writing.register_schema),
    },
    "subjects/{subject}/versions/{version}": {
        "GET": Reading(reading.version),
        "DELETE": Writing(writing.delete_version),
    },
    "subjects/{subject}/versions/{version}/schema": {"GET": Reading(reading.version_schema)},
    "subjects/{subject}/versions/{version}/referencedby": {"GET": Reading(reading.referenced_by)},
    "schemas": {"GET": Reading(reading.schemas)},
    "schemas/types": {"GET": Reading(reading.schema_types)},
    "schemas/ids/{id}": {"GET": Reading(reading.schema_by_id)},
    "schemas/ids/{id}/schema": {"GET": Reading(reading.text_by_id)},
    "schemas/ids/{id}/subjects": {"GET": Reading(reading.subjects_by_id)},
    "schemas/ids/{id}/versions": {"GET": Reading(reading.versions_by_id)},
    "schemas/guids/{guid}": {"GET": Reading(reading.schema_by_guid)},
    "schemas/guids/{guid}/ids": {"GET": Reading(reading.ids_by_guid)},
    "contexts": {"GET": Reading(reading.contexts)},
    "contexts/{context}": {"DELETE": Writing(writing.delete_context, status=204)},
    "config": {
        "GET": Reading(reading.settings),
        "PUT": Writing(writing.change_settings),
        "DELETE": Writing(writing.reset_settings),
    },
    "config/{subject}": {
        "GET": Reading(reading.settings),
        "PUT": Writing(writing.change_settings),
        "DELETE": Writing(writing.reset_settings),
    },
    "mode": {
        "GET": Reading(reading.mode),
        "PUT": Writing(writing.change_mode),
        "DELETE": Writing(writing.reset_mode),
    },
    "mode/{subject}": {
        "GET": Reading(reading.mode),
        "PUT": Writing(writing.change_mode),
        "DELETE": Writing(writing.reset_mode),
    },
    "compatibility/subjects/{subject}/versions": {"POST": Reading(reading.compatibility, fresh=True)},
    "compatibility/subjects/{subject}/versions/{version}": {"POST": Reading(reading.compatibility, fresh=True)},
    "v1/metadata/id": {"GET": Telling(_cluster)},
    "v1/metadata/version": {"GET": Reading(reading.server_version)},
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
