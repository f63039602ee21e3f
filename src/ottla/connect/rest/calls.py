"""The endpoints, one function for each call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from ottla.connect.machine import decide
from ottla.connect.machine.decide import ConnectDecision, Put
from ottla.connect.machine.offsets import ALTERED, RESET, sink_changes
from ottla.connect.machine.records import LoggerLevel, Status, Target
from ottla.connect.machine.refusals import CallRefused, connector_not_found
from ottla.connect.machine.state import ConnectorState
from ottla.connect.plugin import KAFKA_VERSION
from ottla.connect.plugins.known import kind_of
from ottla.connect.rest import answers, plugins, rights
from ottla.connect.rest.bodies import body_of, changed_offsets, config_of, new_connector, unreadable
from ottla.connect.rest.loggers import Loggers, number_of
from ottla.connect.rest.service import Service
from ottla.jobs.caller import HttpCaller
from ottla.metrics.exposition import CONTENT_TYPE, render
from ottla.web.exchange import HttpError, Request, Response, json_response

_UNESCAPED = "+;=@:!$&'()*,~"
_ONCE = "exactly-once source connectors"
HEALTHY = "Worker has completed startup and is ready to handle requests."


@dataclass(frozen=True, slots=True)
class RestCall:
    """One request, and what answers it."""

    service: Service
    loggers: Loggers
    request: Request
    caller: HttpCaller

    @property
    def name(self) -> str:
        """The connector, plugin or logger in the path."""
        return self.request.names["name"]

    def task(self) -> int:
        """The number of the task in the path."""
        text = self.request.names["task"]
        if not text.removeprefix("-").isdigit() or not text.isascii():
            raise HttpError(404)
        return int(text)

    def last(self, parameter: str) -> str | None:
        """A parameter of the query; unknown ones are ignored, as in Kafka."""
        return self.request.query().get(parameter, [None])[0]

    def flag(self, parameter: str) -> bool:
        """A parameter that is `true` in any case of letters; everything else counts as false, as in Kafka."""
        return (self.last(parameter) or "").lower() == "true"

    async def connector(self) -> ConnectorState:
        """The connector in the path; it may have been made by another worker a moment ago."""
        configs = self.service.configs
        if configs.get(self.name) is None:
            await self.service.fresh()
        found = configs.get(self.name)
        if found is None:
            raise connector_not_found(self.name)
        return found


Endpoint = Callable[[RestCall], Awaitable[Response]]


async def root(call: RestCall) -> Response:
    return json_response({"version": KAFKA_VERSION, "commit": "ottla", "kafka_cluster_id": call.service.cluster_id})


async def health(call: RestCall) -> Response:
    return json_response({"status": "healthy", "message": HEALTHY})


async def metrics(call: RestCall) -> Response:
    """The counts for Prometheus, which Kafka's worker gives by JMX alone."""
    return Response(render(call.service.metrics()).encode(), CONTENT_TYPE)


async def list_connectors(call: RestCall) -> Response:
    configs, statuses = call.service.configs, call.service.statuses
    query = call.request.query()
    names = [name for name in configs.names if rights.sees(call.caller, name)]
    if "expand" not in query:
        return json_response(names)
    expanded: dict[str, dict[str, Any]] = {}
    for name in names:
        expanded[name] = {}
        known = configs.get(name)
        if "status" in query["expand"] and name in statuses.connectors:
            expanded[name]["status"] = answers.status(configs, statuses, name)
        if "info" in query["expand"] and known is not None and rights.sees_config(call.caller, name):
            expanded[name]["info"] = answers.info(known)
    return json_response(expanded)


async def create(call: RestCall) -> Response:
    wanted = new_connector(body_of(call.request))
    rights.require_configuring(call.caller, wanted.name)
    service = call.service
    return await _put(
        call, lambda: decide.create(service.configs, service.view, wanted.name, wanted.config, wanted.initial)
    )


async def put_config(call: RestCall) -> Response:
    config, service, name = config_of(body_of(call.request)), call.service, call.name.strip()
    return await _put(call, lambda: decide.put(service.configs, service.view, name, config))


async def patch_config(call: RestCall) -> Response:
    changes, service = config_of(body_of(call.request), "the patch"), call.service
    return await _put(call, lambda: decide.patch(service.configs, service.view, call.name, changes))


async def _put(call: RestCall, decision: Callable[[], ConnectDecision[Put]]) -> Response:
    """The connector as it is now; with its place where it is new."""

    def decided() -> ConnectDecision[Put]:
        found = decision()
        rights.require_work(call.caller, found.answer.connector.name, found.answer.connector.config)
        return found

    made = await call.service.write(decided)
    if not made.created:
        return json_response(answers.info(made.connector))
    current = call.service.configs.get(made.connector.name) if call.service.makes_tasks_at_once else None
    host = call.request.headers.get("host", "")
    place = f"http://{host}/connectors/{quote(made.connector.name, safe=_UNESCAPED)}"
    return json_response(answers.info(current or made.connector), 201, headers=(("Location", place),))


async def get_connector(call: RestCall) -> Response:
    return json_response(answers.info(await call.connector()))


async def get_config(call: RestCall) -> Response:
    return json_response(dict((await call.connector()).config))


async def get_tasks(call: RestCall) -> Response:
    found = await call.connector()
    rows = [
        {"id": {"connector": found.name, "task": number}, "config": dict(each)}
        for number, each in enumerate(found.tasks)
    ]
    return json_response(rows)


async def get_status(call: RestCall) -> Response:
    return json_response(answers.status(call.service.configs, call.service.statuses, call.name))


async def get_task_status(call: RestCall) -> Response:
    return json_response(answers.task_status(call.service.statuses, call.name, call.task()))


async def delete(call: RestCall) -> Response:
    await call.service.write(lambda: decide.delete(call.service.configs, call.name))
    return Response(status=204)


async def pause(call: RestCall) -> Response:
    return await _set(call, Target.PAUSED, 202)


async def resume(call: RestCall) -> Response:
    return await _set(call, Target.STARTED, 202)


async def stop(call: RestCall) -> Response:
    return await _set(call, Target.STOPPED, 204)


async def _set(call: RestCall, target: Target, status: int) -> Response:
    await call.service.write(lambda: decide.set_target(call.service.configs, call.name, target))
    return Response(status=status)


async def restart(call: RestCall) -> Response:
    """Without a parameter the connector alone is restarted, and the answer is empty, as in Kafka."""
    include_tasks, only_failed = call.flag("includeTasks"), call.flag("onlyFailed")
    service, name = call.service, call.name

    def restarting(status: Status) -> Status:
        return status if only_failed and status.state != "FAILED" else replace(status, state="RESTARTING")

    if not include_tasks and not only_failed:
        await service.write(lambda: decide.restart(service.configs, name, include_tasks=False, only_failed=False))
        return Response(status=204)
    known = service.configs.get(name)
    shown = None
    if known is not None:
        tasks = restarting if include_tasks else None
        shown = answers.status(service.configs, service.statuses, name, of_connector=restarting, of_tasks=tasks)
    await service.write(
        lambda: decide.restart(service.configs, name, include_tasks=include_tasks, only_failed=only_failed)
    )
    return json_response(shown or answers.status(service.configs, service.statuses, name), 202)


async def restart_task(call: RestCall) -> Response:
    task = call.task()
    await call.service.write(lambda: decide.restart_task(call.service.configs, call.name, task))
    return Response(status=204)


async def internal(call: RestCall) -> Response:
    """Calls between Kafka's own workers, which sign them. Workers here tell each other by records."""
    if call.service.makes_tasks_at_once:
        kind = "externally setting task configurations" if call.request.method == "POST" else _ONCE
        raise HttpError(500, f"Kafka Connect in standalone mode does not support {kind}.")
    raise HttpError(400, "Internal request missing required signature")


async def get_topics(call: RestCall) -> Response:
    if not call.service.tracks_topics:
        raise HttpError(403, "Topic tracking is disabled.")
    return json_response({call.name: {"topics": call.service.statuses.topics(call.name)}})


async def reset_topics(call: RestCall) -> Response:
    if not call.service.tracks_topics:
        raise HttpError(403, "Topic tracking is disabled.")
    if not call.service.resets_topics:
        raise HttpError(403, "Topic tracking reset is disabled.")
    await call.service.forget_topics(call.name)
    return Response(status=202)


async def get_offsets(call: RestCall) -> Response:
    return json_response({"offsets": await call.service.offsets(await call.connector())})


async def alter_offsets(call: RestCall) -> Response:
    changes = changed_offsets(body_of(call.request, numbers_as_text=False))
    connector = await call.connector()
    if call.caller.rules is not None and kind_of(connector.config) == "sink":
        rights.require_reading(call.caller, (place.topic for place in sink_changes(changes)))
    await call.service.alter_offsets(connector, changes)
    return json_response({"message": ALTERED})


async def reset_offsets(call: RestCall) -> Response:
    await call.service.alter_offsets(await call.connector(), None)
    return json_response({"message": RESET})


async def list_plugins(call: RestCall) -> Response:
    given = call.last("connectorsOnly")
    return json_response(plugins.listed(connectors_only=given is None or given.lower() == "true"))


async def plugin_options(call: RestCall) -> Response:
    return json_response(plugins.options(call.name, call.last("version"), call.service.view))


async def validate(call: RestCall) -> Response:
    """A verdict shows values of the worker's secrets where they are wrong, so it is for those who may use them."""
    config = config_of(body_of(call.request))
    rights.require_configuring(call.caller, (config.get("name") or "").strip())
    return json_response(plugins.verdict(call.name, config, call.service.view))


async def get_loggers(call: RestCall) -> Response:
    return json_response(call.loggers.all())


async def get_logger(call: RestCall) -> Response:
    return json_response(call.loggers.one(call.name))


async def set_logger(call: RestCall) -> Response:
    """With `scope=cluster` for all workers, by a record in the configs topic; any other scope is this worker."""
    wanted = body_of(call.request)
    if not isinstance(wanted, dict):
        raise unreadable("send an object with level")
    level = wanted.get("level")
    if level is None:
        raise CallRefused(400, "Desired 'level' parameter was not specified in request.")
    number_of(str(level))
    if (call.last("scope") or "").lower() == "cluster":
        record = LoggerLevel(call.name, str(level).upper())
        await call.service.write(lambda: ConnectDecision(None, [record]))
        return Response(status=204)
    return json_response(call.loggers.set(call.name, str(level)))
