"""Judges the answers of brokers to clients: each must be given under a lease, and in the leader epoch of the request.

`sim/peer.py` brings each question and its answer. A broker answers as leader only under its lease (rule A12), and a
Fetch that names a leader epoch only in that epoch (KIP-320).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.kernel.ids import NO_TOPIC_ID, TopicId
from ottla.messages.fetch import FetchRequest, FetchResponse
from ottla.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from ottla.messages.produce import ProduceRequest, ProduceResponse
from ottla.sim.checkers.history import Anomaly

if TYPE_CHECKING:
    from ottla.sim.machine import Machine, MachineRun

_ANY_EPOCH = -1
_JUDGED = (ProduceRequest, FetchRequest, ListOffsetsRequest)
_Place = tuple[str, bytes, int]


class _Epochs(NamedTuple):
    """Leader epochs of one partition in a Fetch."""

    asked: int
    then: int
    """The broker's own leader epoch when the request was sent."""


class Question(NamedTuple):
    """A request to a leader, and the state of that broker when it was sent."""

    incarnation: MachineRun
    sent_us: int
    epochs: dict[_Place, _Epochs]


def asked(machine: Machine, request: Any) -> Question | None:
    """The question to judge with its answer; None if nothing is to be judged."""
    current = machine.serving
    if current is None or not isinstance(request, _JUDGED):
        return None
    epochs = {}
    if isinstance(request, FetchRequest):
        for topic in request.topics:
            for part in topic.partitions:
                if part.current_leader_epoch != _ANY_EPOCH:
                    place = topic.topic, bytes(topic.topic_id), part.partition
                    then = _epoch_of(current, place)
                    epochs[place] = _Epochs(part.current_leader_epoch, _ANY_EPOCH if then is None else then)
    return Question(current, machine.loop.now_us, epochs)


def answered(question: Question, response: Any) -> Iterator[Anomaly]:
    """Anomalies: answers that the broker may not have given."""
    current = question.incarnation
    sound = list(_answered_well(response))
    if sound and (late_us := question.sent_us - current.lease_ended_us()) > 0:
        yield Anomaly(
            "without-lease",
            f"broker {current.machine.broker_id} answers a {type(response).__name__} that was sent "
            f"{late_us // 1000} ms after its lease had ended",
        )
    for place, epochs in question.epochs.items():
        now = _epoch_of(current, place)
        if now is None or epochs.then <= epochs.asked <= now or not _is_among(place, sound):
            continue
        yield Anomaly(
            "other-epoch",
            f"{place[0]}-{place[2]}: broker {current.machine.broker_id} answers a Fetch in epoch {epochs.asked}, and "
            f"was in {epochs.then} to {now}",
        )


def _epoch_of(current: MachineRun, place: _Place) -> int | None:
    _, topic_id, index = place
    partition = current.node.replicas.by_id.get((TopicId(topic_id), index))
    return None if partition is None else int(partition.leader_epoch)


def _answered_well(response: Any) -> Iterator[_Place]:
    """The partitions that were answered without an error."""
    if isinstance(response, ProduceResponse):
        for produced in response.responses:
            for part in produced.partition_responses:
                if part.error_code == 0:
                    yield produced.name, bytes(produced.topic_id), part.index
    elif isinstance(response, FetchResponse):
        for fetched in response.responses:
            for read in fetched.partitions:
                if read.error_code == 0:
                    yield fetched.topic, bytes(fetched.topic_id), read.partition_index
    elif isinstance(response, ListOffsetsResponse):
        for listed in response.topics:
            for found in listed.partitions:
                if found.error_code == 0:
                    yield listed.name, NO_TOPIC_ID, found.partition_index


def _is_among(place: _Place, sound: list[_Place]) -> bool:
    """The topic of a partition in an answer, which names topics by name or by id."""
    return any(index == place[2] and (name == place[0] or topic_id == place[1]) for name, topic_id, index in sound)
