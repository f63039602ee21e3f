"""Connect over HTTP: the endpoint of each path and method, the rights that it takes, refusals as JSON."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Final

from ottla.connect.machine.refusals import CallRefused
from ottla.connect.rest import calls, rights
from ottla.connect.rest.calls import Endpoint, RestCall
from ottla.connect.rest.loggers import Loggers
from ottla.connect.rest.service import Service
from ottla.jobs.caller_rights import CallerOf, anybody
from ottla.web.exchange import JSON, HttpError, Request, Response
from ottla.web.routes import Routes


@dataclass(frozen=True, slots=True)
class Served:
    """An endpoint, and the rights that it takes."""

    do: Endpoint
    rights: tuple[rights.ConnectRight, ...] = ()


ROUTES: Final[dict[str, dict[str, Served]]] = {
    "": {"GET": Served(calls.root)},
    "health": {"GET": Served(calls.health)},
    "metrics": {"GET": Served(calls.metrics, (rights.METRICS,))},
    "connectors": {
        "GET": Served(calls.list_connectors, (rights.LISTED,)),
        "POST": Served(calls.create, (rights.BODY, *rights.WORK)),
    },
    "connectors/{name}": {
        "GET": Served(calls.get_connector, (rights.DESCRIBE_CONFIGS,)),
        "DELETE": Served(calls.delete, (rights.DELETE,)),
    },
    "connectors/{name}/config": {
        "GET": Served(calls.get_config, (rights.DESCRIBE_CONFIGS,)),
        "PUT": Served(calls.put_config, (rights.PUT, *rights.WORK)),
        "PATCH": Served(calls.patch_config, (rights.PATCH, *rights.WORK)),
    },
    "connectors/{name}/status": {"GET": Served(calls.get_status, (rights.DESCRIBE,))},
    "connectors/{name}/tasks": {
        "GET": Served(calls.get_tasks, (rights.DESCRIBE_CONFIGS,)),
        "POST": Served(calls.internal),
    },
    "connectors/{name}/fence": {"PUT": Served(calls.internal)},
    "connectors/{name}/tasks/{task}/status": {"GET": Served(calls.get_task_status, (rights.DESCRIBE,))},
    "connectors/{name}/tasks/{task}/restart": {"POST": Served(calls.restart_task, (rights.READ,))},
    "connectors/{name}/restart": {"POST": Served(calls.restart, (rights.READ,))},
    "connectors/{name}/pause": {"PUT": Served(calls.pause, (rights.READ,))},
    "connectors/{name}/resume": {"PUT": Served(calls.resume, (rights.READ,))},
    "connectors/{name}/stop": {"PUT": Served(calls.stop, (rights.READ,))},
    "connectors/{name}/topics": {"GET": Served(calls.get_topics, (rights.DESCRIBE,))},
    "connectors/{name}/topics/reset": {"PUT": Served(calls.reset_topics, (rights.READ,))},
    "connectors/{name}/offsets": {
        "GET": Served(calls.get_offsets, (rights.DESCRIBE,)),
        "PATCH": Served(calls.alter_offsets, (rights.READ, rights.SINK_OFFSETS)),
        "DELETE": Served(calls.reset_offsets, (rights.DELETE,)),
    },
    "connector-plugins": {"GET": Served(calls.list_plugins)},
    "connector-plugins/{name}/config": {"GET": Served(calls.plugin_options)},
    "connector-plugins/{name}/config/validate": {"PUT": Served(calls.validate, (rights.BODY,))},
    "admin/loggers": {"GET": Served(calls.get_loggers, (rights.LOGGERS,))},
    "admin/loggers/{name}": {
        "GET": Served(calls.get_logger, (rights.LOGGERS,)),
        "PUT": Served(calls.set_logger, (rights.SET_LOGGERS,)),
    },
}
"""The calls that there are, and the rights that they take: the reference and the tests are made from this table."""


class ConnectApp:
    """Serves one worker. Paths are cut before they are decoded, so every name that can be made can be asked for.

    Each call is held against the rights of its caller before it has an effect.
    """

    def __init__(self, service: Service, caller_of: CallerOf = anybody) -> None:
        self._service = service
        self._caller_of = caller_of
        self._routes = Routes(ROUTES)
        self.loggers = Loggers(lambda: int(time.time() * 1000))

    async def __call__(self, request: Request) -> Response:
        try:
            return await self._answer(request)
        except CallRefused as refusal:
            return HttpError(refusal.status, refusal.message).response()

    async def _answer(self, request: Request) -> Response:
        found = self._routes.at(request.path)
        if request.method == "OPTIONS":
            return found.options()
        endpoint = found.endpoint(request.method)
        try:
            if endpoint.do is not calls.metrics:
                request.accepted((JSON,), strict=True)
        except HttpError as refusal:
            raise HttpError(refusal.status) from refusal
        caller = await self._caller_of(request)
        call = RestCall(self._service, self.loggers, replace(request, names=found.names), caller)
        rights.require(endpoint.rights, call)
        return await endpoint.do(call)
