"""The judge of coordinators' logs finds illegal steps, and records that no step allows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from planted import A, B
from planted_transactions import COMMIT, LOG, marker, scanned, stored

from ottla.kernel.ids import TopicPartition
from ottla.sim.checkers.history import History, Traits
from ottla.sim.checkers.state_log import allowed, sequence
from ottla.sim.checkers.transaction_history import TransactionsScanned
from ottla.transactions.values import Transaction, TransactionState

INSIDE = frozenset({TopicPartition("ledger", 0)})


def step(state: TransactionState, epoch: int = 0, partitions: frozenset[TopicPartition] = INSIDE) -> Transaction:
    return Transaction(7, epoch, state=state, partitions=partitions)


NONE: frozenset[TopicPartition] = frozenset()
WHOLE = (
    step(TransactionState.EMPTY, 0, NONE),
    step(TransactionState.ONGOING),
    step(TransactionState.PREPARE_COMMIT, 1),
    step(TransactionState.COMPLETE_COMMIT, 1, NONE),
)
SCAN = scanned(stored(0, A, B), marker(2, commits=True), visible=((0, A), (1, B)))


def condemned(steps: tuple[Transaction, ...], scan: TransactionsScanned) -> set[str]:
    history = History()
    history.traits[LOG] = Traits("ledger")
    for event in (*COMMIT, scan):
        history.add(event)
    return {anomaly.kind for anomaly in (*sequence("t0", list(steps)), *allowed({"t0": list(steps)}, history))}


def test_a_transaction_from_its_beginning_to_its_end_is_sound():
    assert condemned(WHOLE, SCAN) == set()


@pytest.mark.parametrize(
    ("kind", "steps", "scan"),
    [
        ("impossible-step", (WHOLE[0], WHOLE[2], WHOLE[3]), SCAN),
        ("impossible-step", (*WHOLE, step(TransactionState.ONGOING), *WHOLE[2:]), SCAN),
        ("impossible-step", (*WHOLE[:2], WHOLE[3]), SCAN),
        ("impossible-step", (*WHOLE[:3], step(TransactionState.COMPLETE_COMMIT, 1)), SCAN),
        ("impossible-step", (*WHOLE[:2], step(TransactionState.ONGOING, 0, NONE), *WHOLE[2:]), SCAN),
        (
            "impossible-step",
            (*WHOLE[:2], step(TransactionState.ONGOING, 1), step(TransactionState.PREPARE_COMMIT, 2)),
            SCAN,
        ),
        ("impossible-step", (*WHOLE[:2], step(TransactionState.PREPARE_COMMIT, 2)), SCAN),
        ("impossible-step", (*WHOLE[:2], step(TransactionState.PREPARE_COMMIT, 1, NONE)), SCAN),
        ("impossible-step", (*WHOLE[:2], replace(WHOLE[2], timeout_ms=5)), SCAN),
        ("impossible-step", (*WHOLE[:2], replace(WHOLE[1], started_ms=5)), SCAN),
        ("impossible-step", (*WHOLE[:3], replace(WHOLE[3], producer_id=8)), SCAN),
        ("never-complete", WHOLE[:3], SCAN),
        ("never-complete", WHOLE[:2], SCAN),
        ("never-added", (WHOLE[0], step(TransactionState.ONGOING, 0, NONE), *WHOLE[2:]), SCAN),
        ("never-added", WHOLE, scanned(*SCAN.batches, stored(3, B, epoch=1), visible=())),
        ("undecided-marker", WHOLE, scanned(stored(0, A, B), marker(2, commits=False), visible=())),
        ("undecided-marker", WHOLE, scanned(stored(0, A, B), marker(2, commits=True, epoch=2), visible=())),
    ],
)
def test_each_thing_that_is_wrong_is_called_by_its_name(
    kind: str, steps: tuple[Transaction, ...], scan: TransactionsScanned
):
    assert kind in condemned(steps, scan)
