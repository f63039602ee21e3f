"""A distributed worker as a process: its property file, its REST interface, its signals."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Final

from ottla.cli.faults import text_of
from ottla.client.security import OPTIONS as SECURITY
from ottla.config.properties import parse_properties
from ottla.connect.checks import one_of
from ottla.connect.errors import ConfigException
from ottla.connect.rest.app import ConnectApp
from ottla.connect.rest.listener import TOKENS, USERS, address_of, caller_rights, context_of, guarded, judging
from ottla.connect.tasks.clients import client_of
from ottla.connect.tasks.worker_options import check, flag, number
from ottla.connect.worker import Worker, WorkerSettings
from ottla.jobs.parent import parent_watched
from ottla.web.server import listening, serving

_TOPICS: Final = ("config.storage.topic", "status.storage.topic", "offset.storage.topic")
_OWN: Final = (
    "group.id", *_TOPICS, "status.storage.partitions", "offset.storage.partitions", "config.storage.replication.factor",
    "session.timeout.ms", "heartbeat.interval.ms", "listeners", "topic.tracking.enable", "topic.tracking.allow.reset",
    "exactly.once.source.support", USERS, TOKENS,
)  # fmt: skip
OF_ITS_OWN: Final = {
    "group.id": "connect-cluster",
    "config.storage.topic": "connect-configs",
    "status.storage.topic": "connect-status",
    "offset.storage.topic": "connect-offsets",
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "offset.flush.interval.ms": "10000",
}
"""A worker that was given no file: the values of Kafka's connect-distributed.properties."""


def settings_of(given: Mapping[str, str]) -> WorkerSettings:
    """The settings of a worker's properties; ConfigException names what is missing or wrong."""
    for name in ("bootstrap.servers", "group.id", *_TOPICS):
        if not given.get(name):
            raise ConfigException(f'Missing required configuration "{name}" which has no default value.')
    check(given, _OWN)
    return WorkerSettings(
        bootstrap=given["bootstrap.servers"],
        group_id=given["group.id"],
        config_topic=given["config.storage.topic"],
        status_topic=given["status.storage.topic"],
        status_partitions=number(given, "status.storage.partitions", 5),
        offset_topic=given["offset.storage.topic"],
        offset_partitions=number(given, "offset.storage.partitions", 25),
        replication_factor=number(given, "config.storage.replication.factor", -1),
        session_timeout_ms=number(given, "session.timeout.ms", 10_000),
        heartbeat_interval_ms=number(given, "heartbeat.interval.ms", 3_000),
        exactly_once=_exactly_once(given) == "enabled",
        tracks_topics=flag(given, "topic.tracking.enable"),
        resets_topics=flag(given, "topic.tracking.allow.reset"),
        properties=dict(given),
    )


def _exactly_once(given: Mapping[str, str]) -> str:
    """`preparing` has no effect of its own: all workers here leave out what a transaction did not commit."""
    name = "exactly.once.source.support"
    text = given.get(name, "disabled")
    one_of("DISABLED", "PREPARING", "ENABLED", any_case=True)(name, text)
    return text.lower()


def read_settings(path: str) -> WorkerSettings:
    """The settings in a property file."""
    return settings_of({name: value.strip() for name, value in parse_properties(text_of(path)).items()})


def settings_for(bootstrap: str, port: int, client: Mapping[str, str]) -> WorkerSettings:
    """The settings of a worker without a property file: those of Kafka's example, on one port of this machine.

    Of the options of a client those of security count.
    """
    security = {name: text for name, text in client.items() if name in SECURITY}
    own = {"bootstrap.servers": bootstrap, "listeners": f"http://127.0.0.1:{port}"}
    return settings_of(OF_ITS_OWN | security | own)


async def serve(settings: WorkerSettings, *, with_parent: bool = False) -> int:
    """Run a worker until a signal asks it to stop, or until the parent has ended."""
    address, context = address_of(settings.properties), context_of(settings.properties)
    with listening(address.host, address.port) as bound:
        worker_id = f"{address.shown}:{bound.getsockname()[1]}"
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        rights = caller_rights(settings.properties, *client_of(settings.properties))
        parent = parent_watched(stop) if with_parent else nullcontext()
        async with parent, Worker(settings, worker_id) as worker, judging(rights) as caller_of:
            app = ConnectApp(worker, caller_of)
            worker.owning.set_level = app.loggers.set
            handler = guarded(app, settings.properties)
            async with serving(handler, bound, ssl_context=context):
                print(f"ottla connect ready: {address.scheme}://{worker_id} in group {settings.group_id}", flush=True)
                await stop.wait()
                print("ottla connect: stopping; what was read is delivered first", file=sys.stderr, flush=True)
    return 0
