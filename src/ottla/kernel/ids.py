"""Ids and counters that rooms hand to one another; each a type of its own so that none is taken for another."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, NamedTuple, NewType

if TYPE_CHECKING:
    from ottla.kernel.seams import Entropy

BrokerId = NewType("BrokerId", int)
BrokerEpoch = NewType("BrokerEpoch", int)
"""The metadata-log version of a broker's registration entry: it names one incarnation of the broker."""
LeaderEpoch = NewType("LeaderEpoch", int)
"""Grows by one with every leadership of a partition."""
PartitionEpoch = NewType("PartitionEpoch", int)
"""Grows by one with every change of a partition's leader or in-sync set."""
TopicId = NewType("TopicId", bytes)
"""16 raw bytes; `NO_TOPIC_ID` where there is none. Its text form is URL-safe base64 without padding."""
EndOffset = NewType("EndOffset", int)
"""The offset after the last record appended."""
SyncedOffset = NewType("SyncedOffset", int)
"""The offset after the last record known to be on disk."""
ProducerId = NewType("ProducerId", int)

NO_TOPIC_ID = TopicId(bytes(16))
NO_PRODUCER_ID = ProducerId(-1)
NO_LEADER = BrokerId(-1)
_RESERVED = bytes(15)
NO_EPOCH = LeaderEpoch(-1)


class TopicPartition(NamedTuple):
    """A partition by its topic's name. Where identity matters use the topic id: names are used again."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def topic_id_text(topic_id: bytes) -> str:
    """The 22 characters in which Kafka's tools print an id."""
    return base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode("ascii")


def new_id(entropy: Entropy) -> bytes:
    """A new id. As Apache Kafka's, it is none of the reserved ids, and no tool takes its text for an option."""
    while (made := entropy.bytes(16))[:15] == _RESERVED or topic_id_text(made).startswith("-"):
        pass
    return made


def parse_topic_id(text: str) -> TopicId:
    """The id behind its 22-character text; ValueError where it is none."""
    try:
        raw = base64.b64decode(text.encode("ascii") + b"==", altchars=b"-_", validate=True)
    except (binascii.Error, UnicodeEncodeError) as fault:
        raise ValueError(f"not a topic id: {text!r}") from fault
    if len(raw) != 16:
        raise ValueError(f"not a topic id: {text!r}")
    return TopicId(raw)
