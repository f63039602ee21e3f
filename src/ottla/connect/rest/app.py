"""Connect over HTTP: the endpoint of each path and method, refusals as JSON."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Final

from ottla.connect.machine.refusals import CallRefused
from ottla.connect.rest import calls
from ottla.connect.rest.calls import Endpoint, RestCall
from ottla.connect.rest.loggers import Loggers
from ottla.connect.rest.service import Service
from ottla.web.exchange import JSON, HttpError, Request, Response
from ottla.web.routes import Routes

ROUTES: Final[dict[str, dict[str, Endpoint]]] = {
    "": {"GET": calls.root},
    "health": {"GET": calls.health},
    "metrics": {"GET": calls.metrics},
    "connectors": {"GET": calls.list_connectors, "POST": calls.create},
    "connectors/{name}": {"GET": calls.get_connector, "DELETE": calls.delete},
    "connectors/{name}/config": {
        "GET": calls.get_config, "PUT": calls.put_config, "PATCH": calls.patch_config,
    },
    "connectors/{name}/status": {"GET": calls.get_status},
    "connectors/{name}/tasks": {"GET": calls.get_tasks, "POST": calls.internal},
    "connectors/{name}/fence": {"PUT": calls.internal},
    "connectors/{name}/tasks/{task}/status": {"GET": calls.get_task_status},
    "connectors/{name}/tasks/{task}/restart": {"POST": calls.restart_task},
    "connectors/{name}/restart": {"POST": calls.restart},
    "connectors/{name}/pause": {"PUT": calls.pause},
    "connectors/{name}/resume": {"PUT": calls.resume},
    "connectors/{name}/stop": {"PUT": calls.stop},
    "connectors/{name}/topics": {"GET": calls.get_topics},
    "connectors/{name}/topics/reset": {"PUT": calls.reset_topics},
    "connectors/{name}/offsets": {
        "GET": calls.get_offsets, "PATCH": calls.alter_offsets, "DELETE": calls.reset_offsets,
    },
    "connector-plugins": {"GET": calls.list_plugins},
    "connector-plugins/{name}/config": {"GET": calls.plugin_options},
    "connector-plugins/{name}/config/validate": {"PUT": calls.validate},
    "admin/loggers": {"GET": calls.get_loggers},
    "admin/loggers/{name}": {"GET": calls.get_logger, "PUT": calls.set_logger},
}  # fmt: skip


class ConnectApp:
    """Serves one worker. Paths are cut before they are decoded, so every name that can be made can be asked for."""

    def __init__(self, service: Service) -> None:
        self._service = service
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
            if endpoint is not calls.metrics:
                request.accepted((JSON,), strict=True)
        except HttpError as refusal:
            raise HttpError(refusal.status) from refusal
        return await endpoint(RestCall(self._service, self.loggers, replace(request, names=found.names)))
