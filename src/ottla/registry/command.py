"""`ottla registry start`: one instance of the registry, in this process, until it is told to stop."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
from collections.abc import Sequence
from importlib.util import find_spec

_NEEDED = ("starlette", "uvicorn", "fastavro", "google.protobuf", "grpc_tools", "jsonschema_rs")
_HIGHEST_PORT = 65535


def command(arguments: Sequence[str]) -> int:
    """Run `ottla registry ...`; the exit status."""
    options = _parser().parse_args(arguments)
    missing = [name for name in _NEEDED if not _there(name)]
    if missing:
        print(f"ottla registry: needs {', '.join(missing)}: pip install 'ottla[registry]'", file=sys.stderr)
        return 1
    logging.basicConfig(level=logging.WARNING, format="ottla: %(message)s", stream=sys.stderr)
    from ottla.client.errors import ClientError
    from ottla.kernel.errors import ApiError
    from ottla.registry.topic_setup import UnusableTopic

    try:
        asyncio.run(_serve(options))
    except (ApiError, ClientError, UnusableTopic, OSError) as fault:
        print(f"ottla registry: cannot start: {fault}", file=sys.stderr)
        return 1
    return 0


def _there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ottla registry", description="A schema registry on a Kafka cluster.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    start = verbs.add_parser(
        "start",
        help="serve the registry over HTTP",
        description="Serve the registry over HTTP. Schemas are kept in a compacted topic, so any number of instances "
        "may run beside each other, and each may be ended at any time.",
    )
    start.add_argument(
        "-b", "--bootstrap-server", default="localhost:9092", metavar="HOST:PORT", help="default localhost:9092"
    )
    start.add_argument("--host", default="127.0.0.1", help="listen there (default 127.0.0.1; anybody may write)")
    start.add_argument("--port", type=_port, default=8081, metavar="N", help="default 8081; 0 takes a free port")
    start.add_argument("--topic", default="_schemas", help="where schemas are kept (default _schemas)")
    start.add_argument(
        "--replication-factor", type=int, default=-1, metavar="N", help="of a new topic; default the cluster's own"
    )
    start.add_argument(
        "--accept-damage", action="store_true", help="leave out damaged records of the topic: their schemas are gone"
    )
    start.add_argument("--with-parent", action="store_true", help=argparse.SUPPRESS)
    return parser


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > _HIGHEST_PORT:
        raise argparse.ArgumentTypeError(f"{text} is no port: 0 to {_HIGHEST_PORT} are")
    return int(text)


class _Parent(asyncio.Protocol):
    """The broker that started this registry, seen through standard input: it holds the other end of that pipe."""

    def __init__(self, gone: asyncio.Event) -> None:
        self._gone = gone

    def connection_lost(self, _error: Exception | None) -> None:
        self._gone.set()


async def _serve(options: argparse.Namespace) -> None:
    from ottla.registry.server import listening, serving, url_of
    from ottla.registry.service import Registry

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    bound = listening(options.host, options.port)
    parent: asyncio.ReadTransport | None = None
    try:
        if options.with_parent:
            parent, _ = await loop.connect_read_pipe(lambda: _Parent(stop), sys.stdin)
        registry = Registry(
            options.bootstrap_server,
            topic=options.topic,
            replication_factor=options.replication_factor,
            accept_damage=options.accept_damage,
        )
        async with registry, serving(registry, bound):
            print(f"ottla registry ready: {url_of(options.host, bound)} on {options.bootstrap_server}", flush=True)
            await stop.wait()
    finally:
        bound.close()
        if parent is not None:
            parent.close()
