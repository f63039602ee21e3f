"""An instance over HTTP: /, /topology and /metrics show it, /stores/{store} has its rows, with /{key} of a key."""

from __future__ import annotations

import asyncio
import http.client
import json
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any, Protocol
from urllib.parse import quote, urlencode, urlsplit

from ottla.client import ApiError, ClientError, TopicPartition
from ottla.client.model import LATEST, IsolationLevel
from ottla.kernel.quantities import moment_ms
from ottla.metrics.exposition import CONTENT_TYPE, render
from ottla.metrics.metric import Sample
from ottla.streams.connection import ClusterConnection
from ottla.streams.errors import TopologyError
from ottla.streams.graph import Topology
from ottla.streams.live import Ends, Restoring
from ottla.streams.picture import svg
from ottla.streams.queries import Answer, Query, from_texts
from ottla.streams.stores import Store
from ottla.web.exchange import HttpError, Request, Response, json_response
from ottla.web.guard import LOOPBACK, Guarded
from ottla.web.routes import Router
from ottla.web.server import listening, serving, url_of
from ottla.web.thread import LoopThread

MANY = ("first", "last", "prefix", "since", "until", "limit")
ONE = ("since", "until", "limit")
SVG = "image/svg+xml"
_log = logging.getLogger(__name__)


class Instance(Protocol):
    """A run that is served; `ends` says where partitions end now."""

    def status(self, ends: Ends) -> dict[str, Any]: ...
    def metrics(self, ends: Ends) -> list[Sample]: ...
    def ask(self, name: str, query: Callable[[Store], Query], ends: Ends) -> Answer: ...


class QueryServer:
    """Serves an instance of a topology until `close`."""

    def __init__(self, live: Instance, topology: Topology, where: ClusterConnection, *, host: str, port: int) -> None:
        try:
            bound = listening(host, port)
        except OSError as fault:
            raise TopologyError(f"--query-port {port}: {fault.strerror or fault}") from fault
        self.url = url_of(host, bound)
        self._live, self._topology = live, topology
        self._admin = where.admin()
        router = Router(
            {
                "": {"GET": self._status},
                "topology": {"GET": self._picture},
                "metrics": {"GET": self._metrics},
                "stores/{store}": {"GET": self._many},
                "stores/{store}/{key...}": {"GET": self._one},
            }
        )
        handler = Guarded(router) if host in LOOPBACK else router
        self._thread = LoopThread("ottla-streams-queries", lambda: serving(handler, bound)).start()

    def close(self) -> None:
        """Stop serving."""
        self._thread.stop()
        self._admin.close()

    async def _status(self, request: Request) -> Response:
        request.query(())
        return json_response(await self._asked(lambda: self._live.status(self._ends)))

    async def _picture(self, request: Request) -> Response:
        request.query(())
        return Response(svg(self._topology).encode(), SVG)

    async def _metrics(self, request: Request) -> Response:
        request.query(())
        samples = await self._asked(lambda: self._live.metrics(self._ends))
        return Response(render(samples).encode(), CONTENT_TYPE)

    async def _many(self, request: Request) -> Response:
        return await self._answer(request, MANY, {})

    async def _one(self, request: Request) -> Response:
        return await self._answer(request, ONE, {"key": request.names["key"]})

    async def _answer(self, request: Request, known: Sequence[str], keys: dict[str, str]) -> Response:
        given = {name: values[-1] for name, values in request.query(known).items()}
        name = request.names["store"]
        found = await self._asked(
            lambda: self._live.ask(name, lambda store: query_of(store, {**given, **keys}), self._ends)
        )
        return json_response(found.plain())

    async def _asked(self, ask: Callable[[], Any]) -> Any:
        try:
            return await asyncio.to_thread(ask)
        except Restoring as fault:
            raise HttpError(503, f"HTTP 503 Service Unavailable: {fault}") from fault
        except TopologyError as fault:
            raise HttpError(400, f"HTTP 400 Bad Request: {fault}") from fault
        except (ApiError, ClientError) as fault:
            raise HttpError(
                502, f"HTTP 502 Bad Gateway: the brokers do not say where partitions end: {fault}"
            ) from fault

    def _ends(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        found = self._admin.cluster.list_offsets(partitions, LATEST, IsolationLevel.READ_COMMITTED)
        return {partition: each.offset for partition, each in found.items()}


@contextmanager
def served(live: Instance, topology: Topology, where: ClusterConnection, host: str, port: int | None) -> Iterator[None]:
    """Serve an instance during a block; without a port, nothing."""
    if port is None:
        yield
        return
    with closing(QueryServer(live, topology, where, host=host, port=port)) as server:
        _log.warning("queries are answered at %s", server.url)
        yield


def remote(url: str, store: str, given: dict[str, str]) -> dict[str, Any]:
    """The answer of a running instance; TopologyError if it refuses or is not there."""
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        raise TopologyError(f"{url} is not the URL of an instance: write http://HOST:PORT")
    texts = dict(given)
    path = f"/stores/{quote(store, safe='')}"
    if "key" in texts:
        path += "/" + quote(texts.pop("key"), safe="")
    connection = http.client.HTTPConnection(parts.hostname, parts.port or 80, timeout=60)
    try:
        connection.request("GET", f"{path}?{urlencode(texts)}")
        answer = connection.getresponse()
        content = json.loads(answer.read())
    except (OSError, http.client.HTTPException, ValueError) as fault:
        raise TopologyError(f"no instance answers at {url}: {fault}") from fault
    finally:
        connection.close()
    if answer.status != 200:
        raise TopologyError(f"{url}: {content.get('message', content)}")
    found: dict[str, Any] = content
    return found


def query_of(store: Store, given: dict[str, str]) -> Query:
    """A query from texts: those of a URL's parameters, and of the command line's options."""
    keys: dict[str, str] = {name: given[name] for name in ("key", "first", "last", "prefix") if name in given}
    query = from_texts(store, keys)
    try:
        limit = int(given.get("limit", query.limit))
        since, until = (_moment(given[name]) if name in given else None for name in ("since", "until"))
    except ValueError as fault:
        raise TopologyError(str(fault)) from None
    return replace(query, since_ms=since, until_ms=until, limit=limit)


def _moment(text: str) -> int:
    """A time as the command line has it, or milliseconds since 1970."""
    return int(text) if text.isascii() and text.isdigit() else moment_ms(text, int(time.time() * 1000))
