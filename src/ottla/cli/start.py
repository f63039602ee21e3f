"""`ottla start`: the options of a broker. server/main.py runs it."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.cli.command import Command
from ottla.cli.options import Given, Option
from ottla.server.main import DEFAULT_HTTP_PORT, LOG_LEVELS, StartOptions, start

SET = Option("set", "An option of brokers, such as log.retention.ms=7d; may be repeated.", "KEY=VALUE")
LOG_LEVEL = Option("log-level", "How much to log.", "LEVEL", default="warning", choices=LOG_LEVELS)


def command(arguments: Sequence[str]) -> int:
    return COMMAND.run(arguments)


def _start(given: Given) -> int:
    return start(
        StartOptions(
            data=given.text("data"),
            id=given.number("id"),
            join=given.text("join"),
            memory="memory" in given,
            port=given.number("port"),
            prefer_port=given.number("prefer-port"),
            listen=given.text("listen"),
            http_port=given.number("http-port"),
            registry_port=given.number("registry-port"),
            connect_port=given.number("connect-port"),
            console_port=given.number("console-port"),
            set=given.all("set"),
            config=given.text("config"),
            log_level=given.need("log-level"),
            log_format=given.need("log-format"),
        )
    )


COMMAND = Command(
    "ottla start [--data DIR] [--port N] [--set KEY=VALUE]",
    "Start a broker. With nothing else: 127.0.0.1:9092, data in ./ottla-data.\n\n"
    "The command line goes over the environment (KAFKA_*), and the environment over --config.",
    _start,
    [
        Option("data", "Where data lives. Default: ./ottla-data.", "DIR[,DIR...]"),
        Option("id", "This broker's number in its cluster. Default: 1.", "N", "Integer"),
        Option(
            "join",
            "Be one of several brokers: sqlite:PATH, a directory that all brokers of this machine share, or "
            "zookeeper://HOST:PORT,.../CHROOT.",
            "STORE",
        ),
        Option("memory", "Keep everything in memory; nothing survives."),
        Option("port", "Listen on 127.0.0.1:N; 0 takes a free port and keeps it.", "N", "Integer"),
        Option("prefer-port", "With --port 0: take N rather than another, where it is free.", "N", "Integer"),
        Option("listen", "Listen there instead of on loopback.", "HOST:PORT"),
        Option(
            "http-port",
            f"/metrics on 127.0.0.1:N. Default: {DEFAULT_HTTP_PORT}, and with --join as many more as --id is above 1; "
            "0: off.",
            "N",
            "Integer",
        ),
        Option("registry-port", "A schema registry on 127.0.0.1:N too; 0 takes a free port.", "N", "Integer"),
        Option("connect-port", "A worker of Connect on 127.0.0.1:N too; 0 takes a free port.", "N", "Integer"),
        Option("console-port", "A console for the browser on 127.0.0.1:N too; 0 takes a free port.", "N", "Integer"),
        SET,
        Option("config", "A server.properties.", "FILE"),
        LOG_LEVEL,
        Option("log-format", "How to log, on stderr.", "text|json", default="text", choices=("text", "json")),
    ],
    has_json=False,
    connects=False,
)
