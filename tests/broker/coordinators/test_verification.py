"""Questions about one transactional id that wait for the same coordinator: it answers each."""

from __future__ import annotations

from transactional import OK, Scene, ready

from ottla.broker.coordinators.verification import Question, Verification
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.kernel.story import run_story
from ottla.transactions.values import Verified

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def asked(scene: Scene, *questions: tuple[dict[str, int], TopicPartition]) -> list[Verified]:
    """The answers to a broker that does not coordinate and asks all in one turn of its loop."""
    coordinator = scene.coordinator("tx", 1)
    broker = next(number for number in scene.machines if number != coordinator)
    node = scene.node(broker)
    verification = Verification(node.around, node.peers, node.transactions)
    slots = [
        run_story(verification.ask(Question("tx", *producer.values(), frozenset({place}), adds=False)))
        for producer, place in questions
    ]
    return [scene.end_of(slot) for slot in slots]


def test_of_two_epochs_each_is_answered_for_itself_whichever_asks_first():
    scene = Scene()
    zombie = ready(scene, version=1)
    owner = ready(scene, version=1)
    assert owner.add(0) == OK
    old, new = (zombie.producer, P0), (owner.producer, P0)
    assert asked(scene, old, new) == [{P0: ErrorCode.PRODUCER_FENCED}, {P0: OK}]
    assert asked(scene, new, old) == [{P0: OK}, {P0: ErrorCode.PRODUCER_FENCED}]
    never_given = (owner.producer | {"producer_epoch": owner.epoch + 1}, P0)
    assert asked(scene, new, never_given) == [{P0: OK}, {P0: ErrorCode.PRODUCER_FENCED}]


def test_of_one_epoch_both_questions_are_answered():
    scene = Scene()
    producer = ready(scene, version=1)
    assert producer.add(0) == OK
    first, second = (producer.producer, P0), (producer.producer, P1)
    assert asked(scene, first, second) == [{P0: OK}, {P1: ErrorCode.TRANSACTION_ABORTABLE}]
    assert asked(scene, first, first) == [{P0: OK}, {P0: OK}]
