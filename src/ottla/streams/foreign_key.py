"""Joins of tables by foreign key: the nodes and topics between them, named as Kafka names them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from ottla.streams.draft import Draft
from ottla.streams.engine.foreign import (
    AnswerSubscription,
    KeepSubscription,
    ResolveAnswer,
    Subscribe,
    TellSubscribers,
    answers,
    subscriptions,
)
from ottla.streams.engine.joins import Joiner
from ottla.streams.engine.tables import View
from ottla.streams.serdes import BYTES, Serde
from ottla.streams.stores import KeyValueStore

PREFIX = "KTABLE-FK-JOIN-"


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two tables: its node, its serdes, and the way to its rows with the stores that it needs."""

    node: str
    key: Serde
    value: Serde
    view: View
    stores: tuple[str, ...]


def join_on_foreign_key(
    draft: Draft, this: Side, other: Side, foreign_key: Callable[[Any, Any], Any], joiner: Joiner, name: str | None,
    *, left: bool,
) -> str:  # fmt: skip
    """Add everything up to the node that sends joined rows, and name that node."""
    key, foreign = this.key, other.key

    def named(prefix: str, suffix: str) -> str:
        return draft.numbers.node(prefix, name, suffix)

    asking = named(PREFIX + "SUBSCRIPTION-REGISTRATION-", "-subscription-registration") + "-topic"
    subscribe = named(PREFIX + "SUBSCRIPTION-REGISTRATION-", "-subscription-registration-processor")
    draft.processor(subscribe, (this.node,), lambda: Subscribe(foreign_key, key, this.value, foreign, left=left))
    sink = named("KTABLE-SINK-", "-subscription-registration-sink")
    draft.sink(sink, subscribe, asking, foreign, subscriptions(), repartition=True)
    source = named("KTABLE-SOURCE-", "-subscription-registration-source")
    draft.source(source, (asking,), foreign, subscriptions(), repartition=True)
    kept = named(PREFIX + "SUBSCRIPTION-STATE-STORE-", "-subscription-store")
    draft.store(kept, lambda: KeyValueStore(kept, BYTES, subscriptions()))
    receive = named(PREFIX + "SUBSCRIPTION-PROCESSOR-", "-subscription-receive")
    draft.processor(receive, (source,), lambda: KeepSubscription(kept, foreign), stores=(kept,))
    answer = named(PREFIX + "SUBSCRIPTION-PROCESSOR-", "-subscription-join-foreign")
    draft.processor(answer, (receive,), lambda: AnswerSubscription(other.view, key), stores=other.stores)
    tell = named(PREFIX + "SUBSCRIPTION-PROCESSOR-", "-foreign-join-subscription")
    draft.processor(tell, (other.node,), lambda: TellSubscribers(kept, key, foreign), stores=(kept,))
    answering = named(PREFIX + "SUBSCRIPTION-RESPONSE-", "-subscription-response") + "-topic"
    sink = named("KTABLE-SINK-", "-subscription-response-sink")
    draft.sink(sink, (answer, tell), answering, key, answers(other.value), repartition=True)
    source = named("KTABLE-SOURCE-", "-subscription-response-source")
    draft.source(source, (answering,), key, answers(other.value), repartition=True)
    resolve = named(PREFIX + "SUBSCRIPTION-RESPONSE-RESOLVER-PROCESSOR-", "-subscription-response-resolver")
    make = partial(ResolveAnswer, this.view, key, this.value, joiner, left=left)
    return draft.processor(resolve, (source,), make, stores=this.stores).name
