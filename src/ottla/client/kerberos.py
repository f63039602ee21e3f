"""A client's tickets for GSSAPI: by a key in a file, or those of `kinit`. Kafka's option names or librdkafka's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec

from ottla.config.kerberos import MODULE_OPTIONS
from ottla.config.option import nearest

SERVICE = "sasl.kerberos.service.name"
OPTIONS = (SERVICE, "sasl.kerberos.principal", "sasl.kerberos.keytab")


@dataclass(frozen=True, slots=True)
class TicketSource:
    """The way to tickets for brokers."""

    service: str
    """The first part of the brokers' principals."""
    principal: str = ""
    """The client's own; empty: that of the tickets at hand."""
    keytab: str = ""
    """The file with its key; empty: the tickets of `kinit` are used."""


def tickets_of(texts: Mapping[str, str], jaas: Mapping[str, str] | None) -> TicketSource:
    """The source that options name; `jaas` holds those of the login module. ValueError says what is wrong."""
    if find_spec("gssapi") is None:
        raise ValueError("sasl.mechanism=GSSAPI needs libkrb5-dev and a compiler, then pip install 'ottla[kerberos]'")
    options = jaas or {}
    for name in options:
        if name not in MODULE_OPTIONS:
            raise ValueError(f"sasl.jaas.config: {name} is no option of Krb5LoginModule{nearest(name, MODULE_OPTIONS)}")
    service = texts.get(SERVICE) or options.get("serviceName", "")
    if not service:
        raise ValueError(
            f"sasl.mechanism=GSSAPI needs the first part of the brokers' principals: set {SERVICE}, often to kafka"
        )
    if "ticketCache" in options:
        raise ValueError("sasl.jaas.config: ticketCache is not taken: set the environment variable KRB5CCNAME")
    keytab = options.get("keyTab", "") if jaas is not None else texts.get("sasl.kerberos.keytab", "")
    principal = options.get("principal", "") if jaas is not None else texts.get("sasl.kerberos.principal", "")
    if keytab and not principal:
        raise ValueError(
            "sasl.mechanism=GSSAPI needs the principal whose key the file holds: set sasl.kerberos.principal"
        )
    return TicketSource(service, principal, keytab)
