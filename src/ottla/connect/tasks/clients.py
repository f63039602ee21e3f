"""The settings of the clients of one task, from the worker's properties and the connector's overrides."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from ottla.cli.connect import client_settings
from ottla.cli.faults import Misuse
from ottla.cli.kafka.client_options import consumer_settings, producer_settings
from ottla.client.consume.settings import ConsumerSettings
from ottla.client.model import ClientSettings
from ottla.client.produce.settings import ProducerSettings
from ottla.client.security import OPTIONS as SECURITY
from ottla.config.option import nearest
from ottla.connect.errors import ConfigException
from ottla.connect.tasks.worker_options import require_secure
from ottla.kernel.errors import ApiError, ErrorCode

S = TypeVar("S")
Settings = tuple[S, ClientSettings]
log = logging.getLogger("ottla.connect")
_CLIENT = ("client.id", "request.timeout.ms", "default.api.timeout.ms", "metadata.max.age.ms", "retry.backoff.ms",
           *SECURITY)  # fmt: skip
_NO_LOGIN = frozenset(
    (ErrorCode.SASL_AUTHENTICATION_FAILED, ErrorCode.UNSUPPORTED_SASL_MECHANISM, ErrorCode.ILLEGAL_SASL_STATE)
)
_OWN = frozenset(("bootstrap.servers", "key.serializer", "value.serializer", "key.deserializer", "value.deserializer"))


class _Asked(dict[str, str]):
    """Properties that know which of them were looked up: the others have no effect."""

    def __init__(self, given: Mapping[str, str]) -> None:
        super().__init__(given)
        self.asked: set[str] = set(_OWN)

    def __contains__(self, name: object) -> bool:
        self.asked.add(str(name))
        return super().__contains__(name)

    def __getitem__(self, name: str) -> str:
        self.asked.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: str | None = None) -> str | None:  # type: ignore[override]
        self.asked.add(name)
        return super().get(name, default)


def bootstrap(worker: Mapping[str, str]) -> str:
    """The brokers' addresses."""
    if not worker.get("bootstrap.servers"):
        raise ConfigException('Missing required configuration "bootstrap.servers" which has no default value.')
    return worker["bootstrap.servers"]


def require_login(fault: BaseException) -> None:
    """Raise `ConfigException` for a fault that no waiting mends: the brokers do not take the worker's login."""
    if isinstance(fault, ApiError) and fault.code in _NO_LOGIN:
        raise ConfigException(
            f"the worker cannot log in: {fault.message}. Check sasl.mechanism and the user and the password in "
            "sasl.jaas.config, or in sasl.username and sasl.password (for tokens the client's id and secret), of the "
            "worker's file"
        ) from fault


def client_of(worker: Mapping[str, str]) -> tuple[str, ClientSettings]:
    """The addresses and the settings of a client that is neither a producer nor a consumer. It waits for brokers."""
    try:
        made = client_settings({name: worker[name] for name in _CLIENT if name in worker})
        return bootstrap(worker), replace(made, bootstrap_timeout_ms=ClientSettings().bootstrap_timeout_ms)
    except Misuse as fault:
        raise ConfigException(f"the worker's client: {fault}") from None


def producer_of(
    worker: Mapping[str, str], config: Mapping[str, str], client_id: str, fixed: Mapping[str, str] | None = None
) -> Settings[ProducerSettings]:
    """The settings of a producer: nothing is lost or written twice by it, unless an override says so.

    `fixed`: options that no override may change.
    """
    base = {"client.id": client_id, "delivery.timeout.ms": str(2**31 - 1), "max.block.ms": str(2**63 - 1)}
    fixed = fixed or {}
    for prefix, given in (("producer.", worker), ("producer.override.", config)):
        for name, wanted in fixed.items():
            if given.get(prefix + name, wanted).lower() != wanted.lower():
                raise ConfigException(f"{prefix}{name} cannot be set: with transactions it is {wanted}")
    return _made("producer", producer_settings, {**base, **fixed}, worker, config)


def consumer_of(
    worker: Mapping[str, str], config: Mapping[str, str], client_id: str, group: str
) -> Settings[ConsumerSettings]:
    """The settings of a sink's consumer. It keeps its partitions while the group balances."""
    base = {
        "client.id": client_id, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": "false",
        "partition.assignment.strategy": "cooperative-sticky", "allow.auto.create.topics": "false",
    }  # fmt: skip
    if config.get("consumer.override.enable.auto.commit", "false").lower() != "false":
        raise ConfigException("consumer.override.enable.auto.commit: offsets are committed after a flush, not by time")
    return _made("consumer", consumer_settings, base, worker, config)


def _made(
    kind: str,
    make: Callable[[Mapping[str, str]], S],
    base: Mapping[str, str],
    worker: Mapping[str, str],
    config: Mapping[str, str],
) -> Settings[S]:
    require_secure(config)
    shared = {name: worker[name] for name in _CLIENT if name in worker}
    given = {**below(worker, f"{kind}."), **below(config, f"{kind}.override.")}
    asked = _Asked({**base, **shared, **given})
    try:
        made = make(asked), client_settings(asked)
    except Misuse as fault:
        raise ConfigException(f"{kind} of the connector: {fault}") from None
    for name in sorted(set(given) - asked.asked - set(SECURITY)):
        log.warning("the option %s of the %s has no effect here%s", name, kind, nearest(name, asked.asked))
    return made


def below(given: Mapping[str, str], prefix: str) -> dict[str, str]:
    """The entries whose names begin with a prefix, without it."""
    return {name[len(prefix) :]: value for name, value in given.items() if name.startswith(prefix)}
