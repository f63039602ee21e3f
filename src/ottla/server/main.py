"""`ottla start`: reads options, brings a broker up, says so in one line, and waits to be stopped."""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import os
import resource
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from ottla import __version__
from ottla.server.signals import stopping_signals

if TYPE_CHECKING:
    from ottla.config.resolve import StaticConfig
    from ottla.server.broker_server import BrokerServer

DEFAULT_HTTP_PORT = 9308
"""The port of broker 1, and of a single broker; the next brokers of a cluster take the following ports."""
_GC_AFTER_OBJECTS = 20_000
"""The threshold of the garbage collector: a large request would be scanned a hundred times while it is decoded."""
_LEVELS = ("debug", "info", "warning", "error")


def command(arguments: Sequence[str]) -> int:
    """Run a broker until a signal asks it to stop; the exit status."""
    options = _parser().parse_args(arguments)
    if not __debug__:
        print("ottla: refuses to run under python -O: its own checks would be gone", file=sys.stderr)
        return 2
    _start_logging(options.log_level, options.log_format)
    _allow_many_files()
    try:
        static = _static_config(options)
    except (OSError, ValueError) as fault:
        print(f"ottla: {fault}", file=sys.stderr)
        return 2
    for warning in static.warnings:
        print(f"ottla: warning: {warning}", file=sys.stderr)
    return _run(options, static)


def _allow_many_files() -> None:
    """A log has three files open; the soft limit of most systems, 1024, is meant for programs that use select()."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # macOS has another limit below the hard one
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ottla start",
        description="Start a broker. With nothing else: 127.0.0.1:9092, data in ./ottla-data.",
        epilog="Command line goes over environment (KAFKA_*), environment over --config.",
    )
    parser.add_argument("--data", metavar="DIR[,DIR...]", help="where data lives (default ./ottla-data)")
    parser.add_argument("--id", type=int, metavar="N", help="this broker's number in its cluster (default 1)")
    parser.add_argument(
        "--join", metavar="STORE",
        help="be one of several brokers: sqlite:PATH, a directory that all brokers of this machine share, or "
        "zookeeper://HOST:PORT,.../CHROOT",
    )  # fmt: skip
    parser.add_argument("--memory", action="store_true", help="keep everything in memory; nothing survives")
    parser.add_argument("--port", type=int, metavar="N", help="listen on 127.0.0.1:N; 0 takes a free port and keeps it")
    parser.add_argument(
        "--prefer-port", type=int, metavar="N", help="with --port 0: take N rather than another, where it is free"
    )
    parser.add_argument("--listen", metavar="HOST:PORT", help="listen there instead of on loopback")
    parser.add_argument(
        "--http-port", type=int, metavar="N",
        help=f"/metrics on 127.0.0.1:N (default {DEFAULT_HTTP_PORT}, and with --join as many more as --id is above 1; "
        "0: off)",
    )  # fmt: skip
    parser.add_argument(
        "--registry-port", type=int, metavar="N", help="a schema registry on 127.0.0.1:N too; 0 takes a free port"
    )
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="set a broker option")
    parser.add_argument("--config", metavar="FILE", help="a server.properties")
    parser.add_argument("--log-level", choices=_LEVELS, default="warning", help="how much to log (default warning)")
    parser.add_argument("--log-format", choices=("text", "json"), default="text", help="how to log, on stderr")
    return parser


def _static_config(options: argparse.Namespace) -> StaticConfig:
    from ottla.config.resolve import read_static
    from ottla.server.stores import check_join

    said: dict[str, str] = {}
    for assignment in options.set:
        key, equals, value = assignment.partition("=")
        if not equals:
            raise ValueError(f"--set wants KEY=VALUE, not {assignment!r}")
        said[key.strip()] = value
    if options.port is not None and options.listen is not None:
        raise ValueError("give --port or --listen, not both")
    if options.port is not None:
        if not 0 <= options.port < 65536:
            raise ValueError(f"--port {options.port} is no port: 0 to 65535 are")
        said["listeners"] = f"PLAINTEXT://127.0.0.1:{options.port}"
    if options.prefer_port is not None:
        if options.port != 0:
            raise ValueError("--prefer-port goes with --port 0: other ports are not chosen")
        if not 0 < options.prefer_port < 65536:
            raise ValueError(f"--prefer-port {options.prefer_port} is no port: 1 to 65535 are")
    for name, port in (("--http-port", options.http_port), ("--registry-port", options.registry_port)):
        if port is not None and not 0 <= port < 65536:
            raise ValueError(f"{name} {port} is no port: 0 to 65535 are")
    if options.listen is not None:
        said["listeners"] = f"PLAINTEXT://{options.listen}"
    if options.data is not None:
        if options.memory:
            raise ValueError("give --data or --memory, not both")
        said["log.dirs"] = options.data
    if options.id is not None:
        said["node.id"] = str(options.id)
    if options.join is not None:
        if options.memory:
            raise ValueError("give --join or --memory, not both: nobody else sees what is in memory")
        check_join(options.join)
    return read_static(file=options.config, environment=os.environ, command_line=said)


def _run(options: argparse.Namespace, static: StaticConfig) -> int:
    loop = new_event_loop()
    asyncio.set_event_loop(loop)
    from ottla.server.broker_server import BrokerServer, CannotStart
    from ottla.server.registry_child import RegistryFailed

    try:
        http_port = _http_port(options, static)
        server = BrokerServer(
            loop,
            static.texts,
            memory=options.memory,
            join=options.join,
            http_port=http_port,
            preferred_port=options.prefer_port,
        )
        loop.run_until_complete(_serve(loop, server, options.registry_port))
    except (CannotStart, RegistryFailed) as fault:
        print(f"ottla: cannot start: {fault}", file=sys.stderr)
        return 1
    finally:
        loop.close()
    if server.fatal is not None:
        print(f"ottla: stopped: {server.fatal}", file=sys.stderr)
        return 1
    return 0


def _http_port(options: argparse.Namespace, static: StaticConfig) -> int:
    if options.http_port is not None:
        return int(options.http_port)
    behind = int(static.texts.get("node.id", 1)) - 1 if options.join is not None else 0
    return DEFAULT_HTTP_PORT + behind if 0 < behind < 1000 else DEFAULT_HTTP_PORT


async def _serve(loop: asyncio.AbstractEventLoop, server: BrokerServer, registry_port: int | None) -> None:
    """Serve, in one run of the loop: a signal that comes between two runs would be lost."""
    from ottla.server.registry_child import RegistryChild

    registry: RegistryChild | None = None
    stopping = asyncio.Event()
    for number in stopping_signals():
        loop.add_signal_handler(number, stopping.set)
    server.on_fatal = stopping.set
    loop.set_exception_handler(server.callback_failed)
    threading.excepthook = server.thread_failed
    try:
        await server.start()
        for line in server.warnings:
            print(f"ottla: warning: {line}", file=sys.stderr)
        address = server.client_address
        print(f"ottla {__version__} ready: {address}", flush=True)
        if registry_port is not None:
            registry = RegistryChild(address, registry_port)
            print(f"ottla registry ready: {await registry.start()}", flush=True)
        _print_greeting(server)
        gc.collect()
        gc.freeze()
        gc.set_threshold(_GC_AFTER_OBJECTS)
        await stopping.wait()
    finally:
        if registry is not None:
            await registry.stop()
        await server.stop()


def new_event_loop() -> asyncio.AbstractEventLoop:
    """The loop of uvloop, if it is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def _print_greeting(server: BrokerServer) -> None:
    address = server.client_address
    lines = [
        f"  data      {server.data_description}",
        f"  metrics   {server.metrics_description}",
        f"  try       ottla produce -b {address} hello      (type lines, end with Ctrl-D)",
        f"            ottla consume -b {address} hello --from-beginning",
        f"            kcat -b {address} -L",
        f'  python    confluent_kafka.Producer({{"bootstrap.servers": "{address}"}})',
        f'  spark     spark.read.format("ottla").option("kafka.bootstrap.servers", "{address}")',
    ]
    print("\n".join(lines), file=sys.stderr, flush=True)


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        entry = {"time": _time(record), "level": record.levelname.lower(), "logger": record.name}
        entry["message"] = record.getMessage()
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry)


class _TextLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        text = f"{_time(record)} {record.levelname:<7} {record.name} {record.getMessage()!s}"
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        return text


def _time(record: logging.LogRecord) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"


def _start_logging(level: str, shape: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines() if shape == "json" else _TextLines())
    root = logging.getLogger("ottla")
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    root.propagate = False
