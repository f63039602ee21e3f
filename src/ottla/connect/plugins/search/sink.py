"""The connector for Elasticsearch and OpenSearch, and the task that sends its records in bulk."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote

from ottla.connect.config_def import ConfigDef
from ottla.connect.errors import ConfigException, ConnectException, DataException, RetriableException
from ottla.connect.plugin import KAFKA_VERSION
from ottla.connect.plugins.base import Config, RefusedRecords, SinkConnector, SinkTask
from ottla.connect.plugins.http.asking import authorization
from ottla.connect.plugins.http.requests import Answer, Service, Waits
from ottla.connect.plugins.search.documents import Action, Outcome, Writing, mapping, outcomes
from ottla.connect.plugins.search.options import IDLE, OPTIONS
from ottla.connect.records import SinkRecord

T = TypeVar("T")
_LONGEST_WAIT_MS = 60_000
_TOO_LARGE, _NOT_FOUND, _BAD_REQUEST = 413, 404, 400
log = logging.getLogger("ottla.connect")


class SearchSinkConnector(SinkConnector):
    """Writes records as documents into Elasticsearch or OpenSearch."""

    java_class = "io.confluent.connect.elasticsearch.ElasticsearchSinkConnector"
    aliases = ("ottla.connect.OpenSearchSinkConnector",)
    version = KAFKA_VERSION
    runners = ("light", "spark")

    @classmethod
    def options(cls) -> ConfigDef:
        return OPTIONS

    @classmethod
    def tasks(cls, config: Config, most: int) -> list[dict[str, str]]:
        """As many tasks as may be: they share the partitions."""
        _checked(config)
        if idle := [name for name in IDLE if name in config]:
            log.warning("%s: no effect of %s", config.get("name", cls.__name__), ", ".join(idle))
        return [dict(config)] * most

    @classmethod
    def task(cls, config: Config) -> SinkTask:
        return SearchSinkTask(_checked(config))


def _checked(config: Config) -> dict[str, Any]:
    options = OPTIONS.parse(config)
    if (options["connection.username"] is None) != (options["connection.password"] is None):
        raise ConfigException("connection.username and connection.password go together: give both, or none")
    if options["data.stream.type"].upper() == "NONE":
        if options["data.stream.dataset"] or options["data.stream.timestamp.field"]:
            raise ConfigException("data.stream.* have an effect with data.stream.type: set it to logs or metrics")
        return options
    if not options["data.stream.dataset"]:
        raise ConfigException("data.stream.type needs data.stream.dataset, the second part of the stream's name")
    if options["write.method"].upper() == "UPSERT" or options["behavior.on.null.values"].upper() == "DELETE":
        raise ConfigException("documents of a data stream cannot be changed: leave out UPSERT and delete")
    return options


def _writing(options: dict[str, Any]) -> Writing:
    kind, stream = options["data.stream.type"].lower(), ""
    if kind != "none":
        stream = f"{kind}-{options['data.stream.dataset']}-{options['data.stream.namespace']}"
    return Writing(
        key_ignore=options["key.ignore"],
        topics_without_key=frozenset(options["topic.key.ignore"]),
        upsert=options["write.method"].upper() == "UPSERT",
        null_values=options["behavior.on.null.values"].lower(),
        compact_maps=options["compact.map.entries"],
        version_header=options["external.version.header"],
        conflicts=min(options["max.in.flight.requests"], 5),
        stream=stream,
        time_fields=tuple(options["data.stream.timestamp.field"]),
    )


class Cluster:
    """One way to the servers: a connection to one of them, to the next where that does not answer."""

    def __init__(self, options: dict[str, Any]) -> None:
        timeout_s = max(options["connection.timeout.ms"], options["read.timeout.ms"]) / 1000
        self._services = [Service(url, timeout_s) for url in options["connection.url"]]
        secret = options["connection.password"]
        auth = {"http.secret": secret, "http.auth": "basic", "http.user": options["connection.username"]}
        self._headers = {"Content-Type": "application/json"} | authorization(auth)
        self._packs = options["connection.compression"]

    def ask(self, method: str, path: str, body: bytes = b"", kind: str = "application/json") -> Answer:
        """Ask the servers in turn until one answers."""
        headers = self._headers | {"Content-Type": kind}
        if self._packs and body:
            body, headers = gzip.compress(body, mtime=0), headers | {"Content-Encoding": "gzip"}
        for _ in self._services:
            service = self._services[0]
            answer = service.ask(method, service.target.rstrip("/") + path, body, headers)
            if answer.status:
                return answer
            self._services.append(self._services.pop(0))
        return answer

    def close(self) -> None:
        """End the connections."""
        for each in self._services:
            each.close()


class SearchSinkTask(SinkTask):
    """Sends each put at once; a flush has nothing left to do."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options, self._writing = options, _writing(options)
        side_by_side = 1 if self._writing.upsert else options["max.in.flight.requests"]
        self._clusters = [Cluster(options) for _ in range(side_by_side)]
        self._threads = ThreadPoolExecutor(side_by_side, thread_name_prefix="search")
        self._known: set[str] = set()
        """Indexes that exist."""

    async def put(self, records: list[SinkRecord]) -> None:
        """Send records in bulk. A refused record costs itself alone. Records that come twice change nothing."""
        refused: list[tuple[SinkRecord, Exception]] = []
        actions = [action for record in records if (action := self._action(record, refused))]
        for action in actions:
            if action.index not in self._known:
                await self._make(action)
        batches = parted(actions, self._options["batch.size"], self._options["bulk.size.bytes"])
        for start in range(0, len(batches), len(self._clusters)):
            group = zip(self._clusters, batches[start:], strict=False)
            found = await asyncio.gather(
                *(self._send(cluster, batch, refused) for cluster, batch in group), return_exceptions=True
            )
            for fault in found:
                if fault is not None:
                    raise fault
        if refused:
            order = {id(record): at for at, record in enumerate(records)}
            raise RefusedRecords(sorted(refused, key=lambda each: order[id(each[0])]))

    async def close(self) -> None:
        """End the connections, once requests in progress have ended."""
        await asyncio.to_thread(self._threads.shutdown)
        for each in self._clusters:
            each.close()

    def _action(self, record: SinkRecord, refused: list[tuple[SinkRecord, Exception]]) -> Action | None:
        try:
            return self._writing.action(record)
        except DataException as fault:
            if self._options["drop.invalid.message"]:
                log.warning("%s is left out: %s", record, fault)
            else:
                refused.append((record, fault))
            return None

    async def _send(
        self, cluster: Cluster, batch: Sequence[Action], refused: list[tuple[SinkRecord, Exception]]
    ) -> None:
        """Send a batch, and what is left of it again while that may pass."""
        left = list(batch)
        waits = Waits(self._options["max.retries"], self._options["retry.backoff.ms"], _LONGEST_WAIT_MS)
        while True:
            body = b"".join(action.body for action in left)
            answer = await self._apart(partial(cluster.ask, "POST", "/_bulk", body, "application/x-ndjson"))
            if answer.status == _TOO_LARGE and len(left) > 1:
                half = len(left) // 2
                await self._send(cluster, left[:half], refused)
                await self._send(cluster, left[half:], refused)
                return
            if answer.status == _TOO_LARGE:
                refused.append((left[0].record, DataException(answer.reason)))
                return
            left, reason = (left, answer.reason) if answer.may_pass else self._left(answer, left, refused)
            if not left:
                return
            if not waits.left:
                self._known.clear()  # an index may have been deleted
            await waits.again(f"{len(left)} documents were not taken: {reason}", answer.retry_after_ms)

    def _left(
        self, answer: Answer, actions: list[Action], refused: list[tuple[SinkRecord, Exception]]
    ) -> tuple[list[Action], str]:
        """The actions that must be sent again, and why."""
        _require(answer)
        try:
            found = outcomes(answer.content, actions)
        except (ValueError, KeyError, TypeError) as fault:
            raise ConnectException(f"the server's answer is none of the bulk API: {fault!r}") from fault
        newer = sum(outcome is Outcome.NEWER for outcome, _ in found)
        if newer and not self._writing.upsert:
            log.warning("%d documents are there in the same or a newer version and stay so", newer)
        later = [at for at, (outcome, _) in enumerate(found) if self._is_later(outcome)]
        if later and self._writing.upsert:  # updates of one document keep their order
            later, found = list(range(later[0], len(actions))), found[: later[0] + 1]
        for action, (outcome, reason) in zip(actions, found, strict=False):
            if outcome is Outcome.REFUSED:
                self._refuse(action.record, reason, refused)
        return [actions[at] for at in later], found[later[0]][1] if later else ""

    def _is_later(self, outcome: Outcome) -> bool:
        """An update that met others too often may be taken later; a document that is newer stays."""
        return outcome is Outcome.LATER or (self._writing.upsert and outcome is Outcome.NEWER)

    def _refuse(self, record: SinkRecord, reason: str, refused: list[tuple[SinkRecord, Exception]]) -> None:
        match self._options["behavior.on.malformed.documents"].lower():
            case "fail":
                refused.append((record, DataException(reason)))
            case "warn":
                log.warning("%s is left out: %s", record, reason)

    async def _make(self, action: Action) -> None:
        """Make an index that is not there, with the mapping of the record's schema."""
        stream = bool(self._writing.stream)
        path = ("/_data_stream/" if stream else "/") + quote(action.index, safe="")
        cluster = self._clusters[0]
        there = await self._apart(partial(cluster.ask, "GET", path))
        if there.status == _NOT_FOUND:
            body = b"" if stream else json.dumps(self._settings(action.record)).encode()
            there = await self._apart(partial(cluster.ask, "PUT", path, body))
            if there.status == _BAD_REQUEST and b"already_exists" in there.content:
                there = Answer(200, "another task was faster")
        _require(there)
        self._known.add(action.index)

    def _settings(self, record: SinkRecord) -> dict[str, Any]:
        ignored = self._options["schema.ignore"] or record.topic in self._options["topic.schema.ignore"]
        if ignored or record.value_schema is None:
            return {}
        return {"mappings": mapping(record.value_schema, compact=self._options["compact.map.entries"])}

    async def _apart(self, ask: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, ask)


def _require(answer: Answer) -> None:
    """Raise unless the server took the request."""
    if answer.may_pass:
        raise RetriableException(answer.reason)
    if not answer.taken:
        raise ConnectException(answer.reason)


def parted(actions: Sequence[Action], most: int, most_bytes: int) -> list[list[Action]]:
    """The actions of each request."""
    found: list[list[Action]] = []
    size = 0
    for each in actions:
        if not found or len(found[-1]) == most or size + len(each.body) > most_bytes:
            found.append([])
            size = 0
        found[-1].append(each)
        size += len(each.body)
    return found
