"""`ottla start`: the options of a broker. server/main.py runs it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from ottla.cli.command import Command
from ottla.cli.options import Given, Option
from ottla.cli.secure_folder import CLIENT, SecureFolder
from ottla.cli.secure_texts import ADMIN, SECURE_MARK
from ottla.server.main import DEFAULT_HTTP_PORT, LOG_LEVELS, StartOptions, start

_SERVER_PROPERTIES = "server.properties"
SET = Option("set", "An option of brokers, such as log.retention.ms=7d; may be repeated.", "KEY=VALUE")
LOG_LEVEL = Option("log-level", "How much to log.", "LEVEL", default="warning", choices=LOG_LEVELS)


def command(arguments: Sequence[str]) -> int:
    return COMMAND.run(arguments)


def _start(given: Given) -> int:
    config = given.text("config") or _secure_config()
    return start(
        StartOptions(
            data=given.text("data"),
            id=given.number("id"),
            join=given.text("join"),
            brokers=given.text("brokers"),
            ports_above=given.count("ports-above"),
            memory="memory" in given,
            port=given.number("port"),
            prefer_port=given.number("prefer-port"),
            listen=given.text("listen"),
            http_port=given.number("http-port"),
            registry_port=given.number("registry-port"),
            connect_port=given.number("connect-port"),
            console_port=given.number("console-port"),
            set=given.all("set"),
            config=config,
            insecure="insecure" in given,
            client=given.text("command-config") or _admin_beside(config),
            log_level=given.need("log-level"),
            log_format=given.need("log-format"),
            started_as_kafka="started-as-kafka" in given,
        )
    )


def _secure_config() -> str | None:
    """The server.properties in this folder, if `ottla secure init` has made it."""
    try:
        with open(_SERVER_PROPERTIES, encoding="utf-8") as file:
            made = file.readline().rstrip() == SECURE_MARK
    except (OSError, UnicodeDecodeError):
        return None
    if made:
        sys.stderr.write(f"ottla: options of {_SERVER_PROPERTIES}, which `ottla secure init` made here\n")
    return _SERVER_PROPERTIES if made else None


def _admin_beside(config: str | None) -> str | None:
    """The administrator's file in the folder of `ottla secure`, if the configuration lies in one."""
    found = None if config is None else SecureFolder(os.path.dirname(config)).user_path(ADMIN, CLIENT)
    return found if found is not None and os.path.exists(found) else None


COMMAND = Command(
    "ottla start [--data DIR] [--port N] [--set KEY=VALUE]",
    "Start a broker. With nothing else: on 127.0.0.1:9092, without security, data in ./ottla-data.\n\n"
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
        Option(
            "brokers",
            "Run N brokers, one process and one core each, with a folder each in DIR, on ports one above the other; "
            "auto: as many as there are cores.",
            "N|auto",
        ),
        Option("ports-above", "", "N", "Integer", default="0", hidden=True),
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
        Option("command-config", "Client options of the registry and of Connect beside the broker.", "FILE"),
        SET,
        Option("config", "A server.properties. Default: that of `ottla secure init` in this folder, if any.", "FILE"),
        Option("insecure", "Start even if other machines reach a listener that asks nobody who they are."),
        LOG_LEVEL,
        Option("log-format", "How to log, on stderr.", "text|json", default="text", choices=("text", "json")),
        Option(
            "started-as-kafka", "When ready, say so in Kafka's words too: programs that start containers wait for them."
        ),
    ],
    has_json=False,
    connects=False,
)
