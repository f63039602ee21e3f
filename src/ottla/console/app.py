"""The console over HTTP: pages, the same as JSON, events, changes. Refusals are pages too."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from ottla.client.errors import ClientError
from ottla.client.registry_client import RegistryRefusal, RegistryUnavailable
from ottla.config.option import ConfigError
from ottla.console import (
    access,
    audit_log,
    connectors,
    group_changes,
    groups,
    lakes,
    letters,
    messages,
    overview,
    pipelines,
    produce,
    quotas,
    schemas,
    search,
    streams,
    topic_changes,
    topics,
    transactions,
)
from ottla.console.change import Changing, answer
from ottla.console.conditions import wanted
from ottla.console.desk import ConsoleSetting, Desk
from ottla.console.links import LinkRefused
from ottla.console.logins import Logins
from ottla.console.sessions import Sessions, is_token
from ottla.console.sparkline import shown
from ottla.console.urls import url
from ottla.console.view import PageQuery, View, see
from ottla.formats.faults import UnknownSchema
from ottla.jobs.redrive import RedriveRefused
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.web.events import events
from ottla.web.exchange import Handler, HttpError, Request, Response, json_response
from ottla.web.files import StaticFiles
from ottla.web.guard import Guarded
from ottla.web.pages import Pages
from ottla.web.routes import Router

Page = Callable[[Desk, PageQuery], Awaitable[View]]
Picture = Callable[[Desk, PageQuery], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class ServedPage:
    """A page, and the parameters that it takes."""

    page: Page
    parameters: Sequence[str] = ()


PAGES: dict[str, ServedPage] = {
    "": ServedPage(overview.overview),
    "topics": ServedPage(topics.topics, topics.PARAMETERS),
    "topic": ServedPage(topics.topic, ("name",)),
    "messages": ServedPage(messages.messages, messages.PARAMETERS),
    "produce": ServedPage(produce.form, produce.PARAMETERS),
    "groups": ServedPage(groups.groups, groups.PARAMETERS),
    "group": ServedPage(groups.group, ("name",)),
    "schemas": ServedPage(schemas.schemas, schemas.PARAMETERS),
    "schema": ServedPage(schemas.schema, ("subject", "left", "right")),
    "connectors": ServedPage(connectors.connectors, connectors.PARAMETERS),
    "connector": ServedPage(connectors.connector, ("worker", "name")),
    "letters": ServedPage(letters.letters, letters.PARAMETERS),
    "transactions": ServedPage(transactions.transactions, transactions.PARAMETERS),
    "transaction": ServedPage(transactions.transaction, ("id",)),
    "streams": ServedPage(streams.streams),
    "stream": ServedPage(streams.stream, ("instance",)),
    "lakes": ServedPage(lakes.lakes, ("number",)),
    "pipelines": ServedPage(pipelines.pipelines, ("number",)),
    "users": ServedPage(access.users, access.PARAMETERS),
    "quotas": ServedPage(quotas.quotas, quotas.PARAMETERS),
    "audit": ServedPage(audit_log.audit, audit_log.PARAMETERS),
}
PICTURES: dict[str, tuple[Picture, Sequence[str]]] = {
    "topology": (streams.topology, ("instance",)),
    "pipeline": (pipelines.graph, ("number", "at")),
}
CHANGES: dict[str, Changing] = {
    "topic-create": topic_changes.create,
    "topic-delete": topic_changes.delete,
    "topic-config": topic_changes.configure,
    "topic-partitions": topic_changes.add_partitions,
    "topic-records": topic_changes.delete_records,
    "group-reset": group_changes.reset,
    "group-forget": group_changes.forget,
    "group-delete": group_changes.delete,
    "produce": produce.produce,
    "schema-register": schemas.register,
    "schema-compatibility": schemas.compatibility,
    "connector": connectors.change,
    "redrive": letters.redrive,
    "transaction-terminate": transactions.terminate,
    "transaction-abort": transactions.abort,
    "acl-grant": access.grant,
    "acl-revoke": access.revoke,
    "quota-set": quotas.set_quota,
    "quota-unset": quotas.unset_quota,
}
NAVIGATION = (
    ("", "Overview"),
    ("topics", "Topics"),
    ("groups", "Groups"),
    ("schemas", "Schemas"),
    ("connectors", "Connectors"),
    ("letters", "Dead letters"),
    ("streams", "Streams"),
    ("lakes", "Lakes"),
    ("pipelines", "Pipelines"),
    ("transactions", "Transactions"),
    ("users", "Users and ACLs"),
    ("quotas", "Quotas"),
    ("audit", "Audit log"),
)
_MISSING = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
)
_FORBIDDEN = (
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)


class ConsoleApp:
    """Serves one console. It is closed at its end."""

    def __init__(self, setting: ConsoleSetting, *, secure: bool = False) -> None:
        self.setting = setting
        self.sessions = Sessions(setting)
        self._pages = Pages("ottla.console")
        self._turns = search.SearchTurns()
        logins = Logins(setting, self.sessions, self._drawn, secure=secure)
        table: dict[str, dict[str, Handler]] = {name: {"GET": self._page(name)} for name in PAGES}
        table |= {
            "api/v1/{page}": {"GET": self._json},
            "live/search": {"GET": self._search},
            "live/tail": {"GET": self._tail},
            "value": {"GET": self._value},
            "export": {"GET": self._export},
            "picture/{name}": {"GET": self._picture},
            "lake.css": {"GET": lakes.style},
            "change/{name}": {"POST": self._change},
            "static/{path...}": {"GET": StaticFiles("ottla.console")},
            **logins.table(),
        }
        self._router = Router(table)

    async def close(self) -> None:
        """End all sessions."""
        await self.sessions.close()

    async def __call__(self, request: Request) -> Response:
        try:
            return await self._router(request)
        except HttpError as refusal:
            status, sentence, headers = refusal.status, refusal.message, refusal.headers
        except ConfigError as fault:
            status, sentence, headers = 400, str(fault), ()
        except (ApiError, ClientError, LinkRefused, RegistryRefusal, RegistryUnavailable, UnknownSchema) as fault:
            status, sentence, headers = status_of(fault), str(fault), ()
        if request.path.startswith(("/api/", "/live/")):
            return HttpError(status, sentence, headers=headers).response()
        desk = await self.sessions.desk(request)
        view = View("error.html", "That did not work", {"sentence": sentence, "code": status}, status)
        response = self._drawn(view, desk, request)
        response.headers += headers
        return response

    def _page(self, name: str) -> Handler:
        async def handler(request: Request) -> Response:
            desk = await self.sessions.desk(request)
            if desk is None:
                return see("/login")
            return self._drawn(await _view(name, desk, request), desk, request)

        return handler

    async def _json(self, request: Request) -> Response:
        name = request.names["page"].removesuffix("overview")
        if name not in PAGES:
            raise HttpError(404, f"there is {', '.join('/api/v1/' + (page or 'overview') for page in PAGES)}")
        desk = await self._desk(request)
        return json_response((await _view(name, desk, request)).plain(), headers=(("Cache-Control", "no-store"),))

    async def _search(self, request: Request) -> Response:
        desk = await self._desk(request)
        found = desk.searches.get(PageQuery.of(request, ("id",)).need("id"))
        if not isinstance(found, search.Search):
            raise HttpError(404, "this search is not known any more: begin it again")
        return events(search.events_of(desk, found, self._turns))

    async def _tail(self, request: Request) -> Response:
        desk = await self._desk(request)
        query = PageQuery.of(request, messages.PARAMETERS)
        topic = query.need("topic")
        desk.viewer(topic)
        partitions = messages.chosen_of(query, await messages.partitions_of(desk, topic))
        return events(search.tail(desk, topic, wanted(query, int(time.time() * 1000)), partitions))

    async def _value(self, request: Request) -> Response:
        query = PageQuery.of(request, ("topic", "partition", "offset", "part"))
        return await messages.value(await self._desk(request), query)

    async def _export(self, request: Request) -> Response:
        return await messages.export(await self._desk(request), PageQuery.of(request, messages.PARAMETERS))

    async def _picture(self, request: Request) -> Response:
        desk, name = await self._desk(request), request.names["name"]
        if name not in PICTURES:
            raise HttpError(404, f"there is no picture {name!r}")
        make, parameters = PICTURES[name]
        return await make(desk, PageQuery.of(request, parameters))

    async def _change(self, request: Request) -> Response:
        desk, form = await self._desk(request), PageQuery.of_form(request)
        name = request.names["name"]
        if name not in CHANGES:
            raise HttpError(404, f"there is no change {name!r}")
        if self.setting.read_only:
            raise HttpError(403, "this console was started with --read-only: it changes nothing")
        if not is_token(desk, form.given.get("token", "")):
            raise HttpError(403, "the form is not of this session: open its page again")
        return self._drawn(await answer(desk, name, CHANGES[name], form), desk, request)

    async def _desk(self, request: Request) -> Desk:
        desk = await self.sessions.desk(request)
        if desk is None:
            raise HttpError(401, "log in first: /login")
        return desk

    def _drawn(self, view: View, desk: Desk | None, request: Request) -> Response:
        setting = self.setting
        return self._pages.page(
            view.template,
            status=view.status,
            title=view.title,
            navigation=NAVIGATION if desk is not None else (),
            here=request.path.strip("/"),
            bootstrap=setting.bootstrap,
            may_change=not setting.read_only,
            shows_records=setting.shows_records,
            asks=setting.asks,
            user=desk.user if desk else "",
            token=desk.token if desk else "",
            url=url,
            shown=shown,
            **view.values,
        )


def guarded(app: ConsoleApp, hosts: Sequence[str] = ()) -> Handler:
    """The app behind the check of the name by which a browser calls it: other sites may neither read nor change."""
    return Guarded(app, ("localhost", "127.0.0.1", "::1", *(host.lower() for host in hosts)))


def status_of(fault: Exception) -> int:
    """The status for an error of the cluster, or of a server beside it."""
    if isinstance(fault, ApiError):
        return 404 if fault.code in _MISSING else 403 if fault.code in _FORBIDDEN else 409
    if isinstance(fault, LinkRefused | RegistryRefusal):
        return 403 if fault.status == 401 else fault.status  # by 401 the console says: log in here
    return 404 if isinstance(fault, UnknownSchema) else 409 if isinstance(fault, RedriveRefused) else 502


async def _view(name: str, desk: Desk, request: Request) -> View:
    found = PAGES[name]
    return await found.page(desk, PageQuery.of(request, found.parameters))
