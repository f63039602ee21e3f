"""Configurations on a command line: units become plain numbers here, and names that nobody knows are refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.cli.faults import Misuse
from ottla.config.group import GroupConfig
from ottla.config.option import Option, nearest
from ottla.config.topic import TopicConfig
from ottla.config.units import plain_numbers

if TYPE_CHECKING:
    from ottla.client.admin.admin import Resource
    from ottla.client.blocking.admin import Admin


def with_plain_numbers(kind: str, texts: Mapping[str, str]) -> dict[str, str]:
    """`retention.ms=7d` as `604800000`; Misuse where a unit does not fit. Brokers judge all else.

    `kind`: topic, broker, group or client-metrics.
    """
    plain, problems = plain_numbers(texts, known_options(kind))
    if problems:
        raise Misuse("\n".join(problems))
    return plain


def where_they_fit(kind: str, texts: Mapping[str, str]) -> dict[str, str]:
    """The same for Kafka's tools: a text with a wrong unit is left to the broker, which refuses it in Kafka's words."""
    return plain_numbers(texts, known_options(kind))[0]


def known_options(kind: str) -> Mapping[str, Option]:
    if kind == "topic":
        return TopicConfig.BY_NAME
    if kind == "group":
        return GroupConfig.BY_NAME
    if kind == "client-metrics":
        from ottla.config.client_metrics import ClientMetricsConfig

        return ClientMetricsConfig.BY_NAME
    from ottla.config.known import broker_options

    return broker_options()


def unknown_option(kind: str, name: str) -> Misuse:
    """The refusal of a name, with the nearest one that there is."""
    from ottla.config.resolve import nearest_topic_option

    near = nearest_topic_option(name) if kind == "topic" else nearest(name, known_options(kind))
    return Misuse(
        f"there is no configuration {name!r} of a {kind}{near or f'; `ottla config get {kind} NAME --all` lists them'}"
    )


def check_names(admin: Admin, kind: str, resource: Resource, names: Sequence[str]) -> None:
    """Misuse where the cluster does not know one of the names: to unset it would change nothing, and say nothing."""
    if not names:
        return
    found = admin.describe_configs([resource], keys=list(names))[resource]
    if isinstance(found, Exception):
        raise found
    known = {each.name for each in found}
    for name in names:
        if name not in known:
            raise unknown_option(kind, name)
