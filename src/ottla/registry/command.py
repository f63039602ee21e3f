"""`ottla registry start`: one instance of the registry, in this process, until it is told to stop."""

from __future__ import annotations

import asyncio
import errno
import logging
import signal
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.client.model import ClientSettings
    from ottla.jobs.caller_rights import CallerRights

_NEEDED = ("fastavro", "google.protobuf", "grpc_tools", "jsonschema_rs")


@dataclass(frozen=True, slots=True)
class RegistryOptions:
    """The options of `ottla registry start`; cli/registry.py says what each is for."""

    bootstrap_servers: str
    host: str = "127.0.0.1"
    port: int = 8081
    topic: str = "_schemas"
    replication_factor: int = -1
    accept_damage: bool = False
    with_parent: bool = False
    settings: ClientSettings | None = None
    """The settings of its client of Kafka, TLS and login among them."""
    tls: Mapping[str, str] | None = None
    """The ssl.* options by which it serves HTTPS; None: it serves HTTP."""
    users: str | None = None
    """The file of users who are asked for passwords; what each may do, the cluster's ACLs say."""
    tokens: str | None = None
    """The file of the options by which tokens of an identity provider are taken."""


def start(options: RegistryOptions) -> int:
    """Serve until a signal asks it to stop; the exit status."""
    missing = [name for name in _NEEDED if not _there(name)]
    if missing:
        print(f"ottla registry: needs {', '.join(missing)}: pip install 'ottla[registry]'", file=sys.stderr)
        return 1
    logging.basicConfig(level=logging.WARNING, format="ottla: %(message)s", stream=sys.stderr)
    from ottla.client.errors import ClientError
    from ottla.jobs.state_topic_setup import UnusableTopic
    from ottla.kernel.errors import ApiError

    try:
        asyncio.run(_serve(options))
    except (ApiError, ClientError, UnusableTopic, OSError, ValueError) as fault:
        of_cluster = isinstance(fault, ApiError | ClientError) and options.bootstrap_servers not in str(fault)
        where = f" (cluster {options.bootstrap_servers})" if of_cluster else ""
        print(f"ottla registry: cannot start: {fault}{where}", file=sys.stderr)
        return 1
    return 0


def _there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def _rights(options: RegistryOptions) -> CallerRights | None:
    """The judge of the callers; None where nobody is asked who they are. ValueError for wrong mapping rules."""
    from ottla.jobs.caller_rights import MAPPING_RULES, CallerRights, asks

    tls = options.tls or {}
    if not asks(tls, options.users, options.tokens):
        return None
    return CallerRights(options.bootstrap_servers, options.settings, mapping_rules=tls.get(MAPPING_RULES, ""))


async def _serve(options: RegistryOptions) -> None:
    from ottla.config.passwords import UsersFile
    from ottla.jobs.caller_tokens import CallerTokens
    from ottla.jobs.parent import parent_watched
    from ottla.registry.server import opened
    from ottla.registry.service import Registry
    from ottla.web.entry import https_context
    from ottla.web.server import listening, url_of

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    context = None if options.tls is None else https_context(options.tls)
    users = None if options.users is None else UsersFile(options.users)
    tokens = None if options.tokens is None else CallerTokens(options.tokens)
    rights = _rights(options)
    try:
        bound = listening(options.host, options.port)
    except OSError as fault:
        free = "; choose another with --port (0: a free one)" if fault.errno == errno.EADDRINUSE else ""
        raise OSError(f"{fault.strerror}{free}") from fault
    url = url_of(options.host, bound, scheme="http" if context is None else "https")
    with bound:
        registry = Registry(
            options.bootstrap_servers,
            topic=options.topic,
            replication_factor=options.replication_factor,
            accept_damage=options.accept_damage,
            settings=options.settings,
        )
        serving = opened(registry, bound, ssl_context=context, users=users, tokens=tokens, rights=rights)
        async with parent_watched(stop) if options.with_parent else nullcontext(), serving:
            print(f"ottla registry ready: {url} on {options.bootstrap_servers}", flush=True)
            await stop.wait()
