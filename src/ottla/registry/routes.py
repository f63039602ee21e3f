"""The endpoint of a method and a path, under a context or not, and the rights that it takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import unquote

from ottla.registry import reading, rights, writing
from ottla.registry.calls import RegistryCall
from ottla.registry.decide import RegistryDecision
from ottla.registry.records import Json
from ottla.registry.service import Registry
from ottla.registry.state import RegistryState
from ottla.registry.subjects import DEFAULT_CONTEXT
from ottla.web.routes import Route, Routes

Read = Callable[[RegistryState, RegistryCall], Json]
Write = Callable[[RegistryState, RegistryCall], RegistryDecision[Json]]
Rights = tuple[rights.RegistryRight, ...]


@dataclass(frozen=True, slots=True)
class ReadRoute:
    """An endpoint that answers from the state. `fresh`: from the state at the end of the topic."""

    do: Read
    rights: Rights
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class WriteRoute:
    do: Write
    rights: Rights
    status: int = 200


@dataclass(frozen=True, slots=True)
class Telling:
    """An endpoint that tells something of the registry itself."""

    do: Callable[[Registry], Json]
    rights: Rights = ()


Endpoint = ReadRoute | WriteRoute | Telling


def _cluster(registry: Registry) -> Json:
    return {"scope": {"path": [], "clusters": {"kafka-cluster": registry.cluster_id}}}


ROUTES: dict[str, dict[str, Endpoint]] = {
    "": {"GET": ReadRoute(reading.root, ())},
    "subjects": {"GET": ReadRoute(reading.subjects, (rights.LISTED,))},
    "subjects/{subject}": {
        "POST": ReadRoute(reading.lookup, (rights.READ, rights.REFERENCES)),
        "DELETE": WriteRoute(writing.delete_subject, (rights.DELETE,)),
    },
    "subjects/{subject}/metadata": {"GET": ReadRoute(reading.by_metadata, (rights.READ,))},
    "subjects/{subject}/versions": {
        "GET": ReadRoute(reading.versions, (rights.READ,)),
        "POST": WriteRoute(writing.register_schema, (rights.REGISTER, rights.REFERENCES)),
    },
    "subjects/{subject}/versions/{version}": {
        "GET": ReadRoute(reading.version, (rights.READ,)),
        "DELETE": WriteRoute(writing.delete_version, (rights.DELETE,)),
    },
    "subjects/{subject}/versions/{version}/schema": {"GET": ReadRoute(reading.version_schema, (rights.READ,))},
    "subjects/{subject}/versions/{version}/referencedby": {
        "GET": ReadRoute(reading.referenced_by, (rights.READ, rights.LISTED)),
    },
    "schemas": {"GET": ReadRoute(reading.schemas, (rights.LISTED,))},
    "schemas/types": {"GET": ReadRoute(reading.schema_types, ())},
    "schemas/ids/{id}": {"GET": ReadRoute(reading.schema_by_id, (rights.HELD,))},
    "schemas/ids/{id}/schema": {"GET": ReadRoute(reading.text_by_id, (rights.HELD,))},
    "schemas/ids/{id}/subjects": {"GET": ReadRoute(reading.subjects_by_id, (rights.HELD,))},
    "schemas/ids/{id}/versions": {"GET": ReadRoute(reading.versions_by_id, (rights.HELD,))},
    "schemas/guids/{guid}": {"GET": ReadRoute(reading.schema_by_guid, (rights.HELD,))},
    "schemas/guids/{guid}/ids": {"GET": ReadRoute(reading.ids_by_guid, (rights.HELD,))},
    "contexts": {"GET": ReadRoute(reading.contexts, (rights.LISTED,))},
    "contexts/{context}": {"DELETE": WriteRoute(writing.delete_context, (rights.CHANGED_WIDE_SETTINGS,), status=204)},
    "config": {
        "GET": ReadRoute(reading.settings, (rights.WIDE_SETTINGS,)),
        "PUT": WriteRoute(writing.change_settings, (rights.CHANGED_WIDE_SETTINGS,)),
        "DELETE": WriteRoute(writing.reset_settings, (rights.CHANGED_WIDE_SETTINGS,)),
    },
    "config/{subject}": {
        "GET": ReadRoute(reading.settings, rights.SETTINGS),
        "PUT": WriteRoute(writing.change_settings, rights.CHANGED_SETTINGS),
        "DELETE": WriteRoute(writing.reset_settings, rights.CHANGED_SETTINGS),
    },
    "mode": {
        "GET": ReadRoute(reading.mode, (rights.WIDE_SETTINGS,)),
        "PUT": WriteRoute(writing.change_mode, (rights.CHANGED_WIDE_SETTINGS,)),
        "DELETE": WriteRoute(writing.reset_mode, (rights.CHANGED_WIDE_SETTINGS,)),
    },
    "mode/{subject}": {
        "GET": ReadRoute(reading.mode, rights.SETTINGS),
        "PUT": WriteRoute(writing.change_mode, (rights.CHANGED_WIDE_SETTINGS,)),
        "DELETE": WriteRoute(writing.reset_mode, (rights.CHANGED_WIDE_SETTINGS,)),
    },
    "compatibility/subjects/{subject}/versions": {
        "POST": ReadRoute(reading.compatibility, (rights.READ, rights.REFERENCES), fresh=True),
    },
    "compatibility/subjects/{subject}/versions/{version}": {
        "POST": ReadRoute(reading.compatibility, (rights.READ, rights.REFERENCES), fresh=True),
    },
    "v1/metadata/id": {"GET": Telling(_cluster)},
    "v1/metadata/version": {"GET": ReadRoute(reading.server_version, ())},
}
"""The calls that there are, and the rights that they take: the reference and the tests are made from this table."""
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
