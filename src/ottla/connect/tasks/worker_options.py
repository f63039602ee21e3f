"""The worker's options that its tasks use, alike for a worker alone and one of a group; which ones have no effect."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from ottla.client.security import OPTIONS as SECURITY
from ottla.client.security import security_of
from ottla.config.option import nearest
from ottla.connect.errors import ConfigException
from ottla.tls.settings import NAMES as TLS

_OF_TASKS: Final = (
    "bootstrap.servers", "key.converter", "value.converter", "header.converter", "offset.flush.interval.ms",
    "topic.creation.enable", "task.shutdown.graceful.timeout.ms", "config.providers", "client.id",
    "request.timeout.ms", "default.api.timeout.ms", "metadata.max.age.ms", "retry.backoff.ms",
)  # fmt: skip
_WITHOUT_EFFECT: Final = (
    "plugin.path", "plugin.discovery", "rest.advertised.host.name", "rest.advertised.port",
    "rest.advertised.listener", "rest.extension.classes", "admin.listeners", "offset.flush.timeout.ms",
    "connector.client.config.override.policy", "response.http.headers.config", "access.control.allow.origin",
    "access.control.allow.methods", "metric.reporters", "metrics.num.samples", "metrics.sample.window.ms",
    "metrics.recording.level", "auto.include.jmx.reporter", "client.dns.lookup", "send.buffer.bytes",
    "receive.buffer.bytes", "reconnect.backoff.ms", "reconnect.backoff.max.ms", "retry.backoff.max.ms",
    "connections.max.idle.ms", "socket.connection.setup.timeout.ms", "socket.connection.setup.timeout.max.ms",
)  # fmt: skip
_HTTPS: Final = "listeners.https."
_OF_ADDRESS: Final = ("ssl.client.auth", "ssl.principal.mapping.rules")
"""Options of the worker's own address; its clients have no use for them."""
_FAMILIES: Final = (_HTTPS, "key.converter.", "value.converter.", "header.converter.", "config.providers.", "producer.",
                    "consumer.")  # fmt: skip
_FAMILIES_WITHOUT_EFFECT: Final = ("admin.", "metrics.context.")
_CLIENTS: Final = ("producer.override.", "consumer.override.", "admin.override.", "producer.", "consumer.", "admin.")
_log = logging.getLogger("ottla.connect")


def check(given: Mapping[str, str], own: Sequence[str]) -> None:
    """Refuse values that tasks cannot use; warn of each option without effect. `own`: the worker's besides."""
    require_secure(given)
    in_use = (*own, *_OF_TASKS, *SECURITY, *_OF_ADDRESS)
    for name in given:
        if name in in_use or name.startswith(_FAMILIES):
            continue
        if name in _WITHOUT_EFFECT or name.startswith(_FAMILIES_WITHOUT_EFFECT):
            _log.warning("the option %s has no effect here", name)
        else:
            _log.warning("there is no option %s%s", name, nearest(name, (*in_use, *_WITHOUT_EFFECT)))
    number(given, "offset.flush.interval.ms", 60_000)
    number(given, "task.shutdown.graceful.timeout.ms", 5_000)
    flag(given, "topic.creation.enable")


def require_secure(given: Mapping[str, str]) -> None:
    """Refuse options of encryption and authentication that will not do, by name: no client may go on without them."""
    clients = {name: value for name, value in given.items() if name not in _OF_ADDRESS}
    for prefix in ("", *_CLIENTS):
        options = {name.removeprefix(prefix): value for name, value in clients.items() if name.startswith(prefix)}
        try:
            security_of({**clients, **options})
        except ValueError as fault:
            raise ConfigException(f"{prefix}{fault}") from None
    for name in given:
        option = name.removeprefix(_HTTPS)
        known = (*TLS, *_OF_ADDRESS)
        if option != name and option not in known:
            raise ConfigException(f"{name}: there is no such option{nearest(option, known)}")


def number(given: Mapping[str, str], name: str, default: int) -> int:
    """A number above 0."""
    text = given.get(name, str(default))
    if text == str(default):
        return default
    if not (text.isascii() and text.isdecimal() and int(text) > 0):
        raise ConfigException(f"Invalid value {text} for configuration {name}: it is a number above 0")
    return int(text)


def flag(given: Mapping[str, str], name: str) -> bool:
    """`true`, which is the default, or `false`."""
    text = given.get(name, "true").lower()
    if text not in ("true", "false"):
        raise ConfigException(f"Invalid value {text} for configuration {name}: it is true or false")
    return text == "true"
