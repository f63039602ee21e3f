"""`ottla start`: reads options, brings a broker up, says so in one line, and waits to be stopped."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import resource
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ottla import __version__
from ottla.config.security import PLAINTEXT
from ottla.server.signals import stopping_signals

if TYPE_CHECKING:
    from ottla.config.resolve import StaticConfig
    from ottla.server.beside import AllBeside
    from ottla.server.broker_server import BrokerServer

DEFAULT_HTTP_PORT = 9308
"""The port of broker 1, and of a single broker; the next brokers of a cluster take the following ports."""
_GC_AFTER_OBJECTS = 20_000
"""The threshold of the garbage collector: a large request would be scanned a hundred times while it is decoded."""
LOG_LEVELS = ("debug", "info", "warning", "error")
AS_KAFKA = """\
[KafkaServer id={id}] started
[BrokerLifecycleManager id={id}] Transitioning from RECOVERY to RUNNING."""
"""The lines of Kafka's log for which testcontainers waits, in Python and in Java."""
Say = Callable[..., None]
"""Tells the user of the command a sentence; a level may follow it, which is an error unless it is given."""


@dataclass(frozen=True, slots=True)
class StartOptions:
    """The options of `ottla start`; cli/start.py says what each is for."""

    data: str | None = None
    id: int | None = None
    join: str | None = None
    brokers: str | None = None
    """The number of brokers on this machine, or `auto`; None for one broker in this process."""
    ports_above: int = 0
    """The distance of this broker's ports from those that the options name, as one of several_brokers.py."""
    memory: bool = False
    port: int | None = None
    prefer_port: int | None = None
    listen: str | None = None
    http_port: int | None = None
    registry_port: int | None = None
    connect_port: int | None = None
    console_port: int | None = None
    set: Sequence[str] = ()
    config: str | None = None
    insecure: bool = False
    client: str | None = None
    """The file of client options of what runs beside the broker."""
    log_level: str = "warning"
    log_format: str = "text"
    started_as_kafka: bool = False


def start(options: StartOptions) -> int:
    """Run a broker until a signal asks it to stop; the exit status."""
    handler = _start_logging(options.log_level, options.log_format)
    say = partial(_say, handler)
    if not __debug__:
        say("refuses to run under python -O: its own checks would be gone")
        return 2
    _allow_many_files()
    try:
        static = _static_config(options)
    except (OSError, ValueError) as fault:
        say(str(fault))
        return 2
    for warning in static.warnings:
        say(warning, logging.WARNING)
    if options.brokers is not None:
        from ottla.server.several_brokers import start_several

        return start_several(options, static, say)
    if not options.memory and (several := _brokers_of(static)):
        say(several)
        return 2
    return _run(options, static, say)


def _brokers_of(static: StaticConfig) -> str | None:
    """The reason why one broker does not start in the directory of several, or None."""
    from ottla.config.resolve import Layers

    directory = next(iter(Layers(static.texts).broker().data_directories), "")
    if not os.path.isdir(directory) or os.path.exists(os.path.join(directory, "meta.properties")):
        return None
    from ottla.server.supervisor import brokers_in

    if not (numbers := brokers_in(directory)):
        return None
    return (
        f"{directory} holds the data of {len(numbers)} brokers, each in a folder: start them with --brokers "
        f"{len(numbers)}, or another broker with --data ANOTHER"
    )


def _allow_many_files() -> None:
    """A log has three files open; the soft limit of most systems, 1024, is meant for programs that use select()."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # macOS has another limit below the hard one
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _static_config(options: StartOptions) -> StaticConfig:
    from ottla.config.listeners import with_ports_above
    from ottla.config.resolve import read_static
    from ottla.server.stores import check_join

    given = assignments(options.set)
    if options.port is not None and options.listen is not None:
        raise ValueError("give --port or --listen, not both")
    if options.port is not None:
        if not 0 <= options.port < 65536:
            raise ValueError(f"--port {options.port} is not a port: ports are 0 to 65535")
        given["listeners"] = f"PLAINTEXT://127.0.0.1:{options.port}"
    if options.prefer_port is not None:
        if options.port != 0 and options.config is None:
            raise ValueError("--prefer-port goes with --port 0: other ports are not chosen")
        if not 0 < options.prefer_port < 65536:
            raise ValueError(f"--prefer-port {options.prefer_port} is not a port: it takes 1 to 65535")
    for name, port in (
        ("--http-port", options.http_port),
        ("--registry-port", options.registry_port),
        ("--connect-port", options.connect_port),
        ("--console-port", options.console_port),
    ):
        if port is not None and not 0 <= port < 65536:
            raise ValueError(f"{name} {port} is not a port: ports are 0 to 65535")
    if options.listen is not None:
        given["listeners"] = f"PLAINTEXT://{options.listen}"
    if options.insecure:
        given["ottla.insecure"] = "true"
    if options.data is not None:
        if options.memory:
            raise ValueError("give --data or --memory, not both")
        given["log.dirs"] = options.data
    if options.id is not None:
        given["node.id"] = str(options.id)
    if options.join is not None:
        if options.memory:
            raise ValueError("give --join or --memory, not both: nobody else sees what is in memory")
        check_join(options.join)
    static = read_static(file=options.config, environment=os.environ, command_line=given)
    return static._replace(texts=with_ports_above(static.texts, options.ports_above))


def assignments(texts: Sequence[str]) -> dict[str, str]:
    """Options of brokers by name; ValueError where one is not KEY=VALUE."""
    given: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"--set wants KEY=VALUE, not {text!r}")
        if key.strip() in given:
            raise ValueError(f"--set {key.strip()} was given more than once: {given[key.strip()]!r} and {value!r}")
        given[key.strip()] = value
    return given


def _run(options: StartOptions, static: StaticConfig, say: Say) -> int:
    loop = new_event_loop()
    asyncio.set_event_loop(loop)
    from ottla.server.beside import BesideFailed
    from ottla.server.broker_server import BrokerServer, CannotStart

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
        loop.run_until_complete(_serve(loop, server, options, static, say))
    except (CannotStart, BesideFailed) as fault:
        say(f"cannot start: {fault}")
        return 1
    finally:
        loop.close()
    if server.fatal is not None:
        say(f"stopped: {server.fatal}")
        return 1
    return 0


def _http_port(options: StartOptions, static: StaticConfig) -> int:
    if options.http_port is not None:
        return int(options.http_port)
    behind = int(static.texts.get("node.id", 1)) - 1 if options.join is not None else 0
    return DEFAULT_HTTP_PORT + behind if 0 < behind < 1000 else DEFAULT_HTTP_PORT


async def _serve(
    loop: asyncio.AbstractEventLoop, server: BrokerServer, options: StartOptions, static: StaticConfig, say: Say
) -> None:
    """Serve, in one run of the loop: a signal that comes between two runs would be lost."""
    beside = beside_of(options)
    stopping = asyncio.Event()
    for number in stopping_signals():
        loop.add_signal_handler(number, stopping.set)
    server.on_fatal = stopping.set
    loop.set_exception_handler(server.callback_failed)
    threading.excepthook = server.thread_failed
    try:
        await server.start()
        for line in server.warnings:
            say(line, logging.WARNING)
        address = server.client_address
        print(f"ottla {__version__} ready: {address}", flush=True)
        if options.started_as_kafka:
            print(AS_KAFKA.format(id=static.texts.get("node.id", "1")), flush=True)
        await beside.start(address)
        if options.log_format == "json":
            about = f"data: {server.data_description}; metrics: {server.metrics_description}"
            say(f"ready: {address}; {about}", logging.INFO)
        else:
            _print_greeting(server)
        gc.collect()
        gc.freeze()
        gc.set_threshold(_GC_AFTER_OBJECTS)
        await stopping.wait()
    finally:
        await beside.stop()
        await server.stop()


def beside_of(options: StartOptions) -> AllBeside:
    """The processes that the options want beside the broker."""
    from ottla.server.beside import AllBeside

    ports = {"registry": options.registry_port, "connect": options.connect_port, "console": options.console_port}
    return AllBeside(ports, options.client)


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
    if (protocol := server.client_protocol) != PLAINTEXT:
        lines[2:] = [
            f"  clients   come by {protocol} and need a file with options: `ottla secure` makes one for each user",
            f"  try       ottla topic list -b {address} --command-config FILE",
        ]
    print("\n".join(lines), file=sys.stderr, flush=True)


def _say(handler: logging.Handler, sentence: str, level: int = logging.ERROR) -> None:
    """Tell the user of the command: as a sentence beside text, as a line of the log where it is JSON."""
    if isinstance(handler.formatter, _JsonLines):
        handler.emit(logging.LogRecord("ottla.server", level, __file__, 0, sentence, None, None))
    else:
        print(f"ottla: {'warning: ' if level == logging.WARNING else ''}{sentence}", file=sys.stderr)


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


def _start_logging(level: str, shape: str) -> logging.Handler:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines() if shape == "json" else _TextLines())
    root = logging.getLogger("ottla")
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    root.propagate = False
    return handler
