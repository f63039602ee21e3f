"""The registry's topic: a state topic of schemas, settings and modes, with the keys of Confluent's registry."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from ottla.client.aio.cluster import Cluster
from ottla.jobs.state_topic import Pair, StateTopic
from ottla.jobs.state_topic_setup import Words
from ottla.registry.records import (
    Key,
    NoopKey,
    Record,
    UnreadableRegistryRecord,
    Value,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)

DEFAULT_TOPIC = "_schemas"
WORDS = Words(
    owner="a registry",
    content="schemas",
    restart="Start the registry again",
    remedy="schemas would be missing or wrong. Restore the topic; or start the registry with --accept-damage, which "
    "leaves out what is damaged: its schemas are gone, and their ids are not given again",
)
_log = logging.getLogger(__name__)


def schemas_topic(
    cluster: Cluster,
    apply: Callable[[Key, Value], None],
    *,
    topic: str = DEFAULT_TOPIC,
    replication_factor: int = -1,
    timeout_ms: int = 30_000,
    accept_damage: bool = False,
) -> StateTopic:
    """The topic, not opened yet; `apply` is called with every record that can be read, in order."""

    def take(offset: int, key: bytes, value: bytes | None) -> None:
        try:
            known = decode_key(key)
            content = decode_value(known, value)
        except UnreadableRegistryRecord as fault:
            _log.warning("%s: the record at offset %d is left out: %s", topic, offset, fault)
            return
        apply(known, content)

    return StateTopic(
        cluster,
        take,
        WORDS,
        topic=topic,
        no_op=pair((NoopKey(), None)),
        replication_factor=replication_factor,
        timeout_ms=timeout_ms,
        accept_damage=accept_damage,
    )


def pair(record: Record) -> Pair:
    """A record as the topic has it."""
    key, value = record
    return encode_key(key), encode_value(key, value)


def pairs(records: Sequence[Record]) -> list[Pair]:
    """Records as the topic has them."""
    return [pair(record) for record in records]
