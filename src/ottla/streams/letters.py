"""Dead letters of an application: their topic, and letters with the headers of Kafka Streams (KIP-1034)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ottla.client import Admin, ApiError, ErrorCode
from ottla.client.model import Header
from ottla.jobs.letters import Cause, Style, error_headers, short_reason
from ottla.streams.errors import TopologyError
from ottla.streams.layout import TaskLayout
from ottla.streams.naming import checked
from ottla.streams.on_error import Fault, OnError, chosen

MOST_OF_A_TRACE = 4_000
"""Characters of a stack trace that a letter keeps: its end, where the failure is."""


class Letter(NamedTuple):
    """A record that was left out, as the topic of dead letters takes it."""

    key: bytes | None
    value: bytes | None
    headers: list[Header]
    timestamp: int


def choices(on_error: str | OnError | None, dead_letter: str | None) -> OnError:
    """The choices that `run` was given; a topic alone means letters for all failures."""
    if on_error is None:
        on_error = "fail" if dead_letter is None else "dead-letter"
    found = chosen(on_error)
    if found.uses_letters and dead_letter is None:
        raise TopologyError("on_error=dead-letter needs a topic: name it (dead_letter=TOPIC, --dead-letter TOPIC)")
    if dead_letter is not None and not found.uses_letters:
        raise TopologyError(f"nothing would be written to {dead_letter}: choose on_error=dead-letter for some stage")
    return found


def prepare(admin: Admin, topic: str, reads: Callable[[str], bool], replication_factor: int) -> None:
    """Make the topic of dead letters where it does not exist; `reads` says if the application reads a topic."""
    checked(topic)
    if reads(topic):
        raise TopologyError(f"the application reads {topic}: send its dead letters to another topic")
    try:
        admin.create_topic(topic, 1, replication_factor)
    except ApiError as fault:
        if fault.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise


def letter(fault: Fault, plan: TaskLayout) -> Letter:
    """The letter of a fault that has one."""
    read = fault.read
    assert read is not None
    place = read.place
    cause = Cause(
        topic=plan.topic(place.topic),
        partition=place.partition,
        offset=place.offset,
        reason=short_reason(fault.reason),
        exception=fault.exception,
        trace=fault.trace[-MOST_OF_A_TRACE:],
    )
    return Letter(read.key, read.value, [*read.headers, *error_headers(cause, Style.STREAMS)], read.timestamp)
