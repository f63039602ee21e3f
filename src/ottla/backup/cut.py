"""One cut through all partitions: transactions that it would tear are found, and left out whole. Pure.

Every partition is copied up to its last stable offset, asked for one after the other. Of a transaction that ends
meanwhile one partition may hold the marker below that offset, another not yet. All records of such a transaction
existed once all offsets were told. So what stands behind an offset then (the tail) names every torn transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ottla.backup.manifest import Transaction
from ottla.records.batch import Batch


class TransactionScan:
    """Batches of one partition in their order: which transactions have records in it."""

    def __init__(self, only: Collection[int] | None = None) -> None:
        """`only`: the producers to look at; None: all."""
        self._only = only
        self.found: set[Transaction] = set()
        self.told_apart: set[Transaction] = set()
        """Transactions with an epoch of their own: their marker has the next one (KIP-890)."""
        self.open: dict[int, int] = {}
        """The epochs of producers whose last transaction has no marker yet."""
        self.first_markers: dict[int, int] = {}
        """The epochs of markers whose transactions have no record here: these stand before."""

    def see(self, batch: Batch) -> None:
        """Take the next batch, control batches too."""
        if not batch.is_transactional:
            return
        producer, epoch = batch.producer_id, batch.producer_epoch
        if self._only is not None and producer not in self._only:
            return
        if not batch.is_control:
            self.found.add((producer, epoch))
            self.open[producer] = epoch
        elif producer not in self.open:
            self.first_markers.setdefault(producer, epoch)
        elif self.open.pop(producer) + 1 == epoch:
            self.told_apart.add((producer, epoch - 1))

    def ended_behind(self, tail: TransactionScan) -> set[Transaction]:
        """Transactions that are open here, with an epoch of their own by the marker in the tail."""
        return {
            (producer, epoch)
            for producer, epoch in self.open.items()
            if tail.first_markers.get(producer) == epoch + 1
        }  # fmt: skip


def torn(
    parts: Iterable[tuple[TransactionScan, TransactionScan]], before: Iterable[Transaction]
) -> tuple[tuple[Transaction, ...], tuple[int, ...]]:
    """The transactions to leave out, and producers of which one transaction may be in the backup by half.

    `parts` are the scans of each partition's copied records and of its tail. `before` are those that the backup before
    has left out: their first records are in its files. Transactions that share an epoch cannot be told apart.
    """
    behind: set[Transaction] = set()
    told_apart = set(before)
    below = set(told_apart)
    for copied, tail in parts:
        behind |= tail.found
        below |= copied.found
        told_apart |= copied.told_apart | tail.told_apart | copied.ended_behind(tail)
    both = behind & below
    return tuple(sorted(both & told_apart)), tuple(sorted({producer for producer, _ in both - told_apart}))
