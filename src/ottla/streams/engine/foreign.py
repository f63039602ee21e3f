"""Processors of joins of tables by foreign key: the left side subscribes to rows of the right side, which answers.

Kafka's way (KIP-213): an answer carries a hash of the left row that asked, and is left out if that row has changed.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

from ottla.streams.engine.joins import Joiner
from ottla.streams.engine.tables import View
from ottla.streams.engine.task import Context
from ottla.streams.serdes import Serde
from ottla.streams.values import Change, Record, Stamped

LENGTH = struct.Struct(">i")


class Instruction(IntEnum):
    """The right side's task when a subscription arrives."""

    DELETE = 0
    DELETE_AND_ANSWER = 1
    ANSWER = 2
    ANSWER_IF_PRESENT = 3


@dataclass(frozen=True, slots=True)
class Subscription:
    """The left row `key`, known by its hash, wants the row of the foreign key, or wants it no more."""

    instruction: Instruction
    hash: bytes
    key: bytes


@dataclass(frozen=True, slots=True)
class ForeignAnswer:
    """A right row, or None, for the left row of a hash."""

    hash: bytes
    value: Any


def row_hash(value: Serde, row: Any) -> bytes:
    """A hash of a row's bytes, and nothing for no row."""
    return b"" if row is None else hashlib.blake2b(value.write(row), digest_size=16).digest()


def subscriptions() -> Serde:
    """Subscriptions on their way: the instruction, the hash with its length, the key."""

    def write(wanted: Any) -> bytes:
        head: bytes = bytes((wanted.instruction, len(wanted.hash))) + wanted.hash
        return head + bytes(wanted.key)

    def read(data: bytes) -> Subscription:
        end = 2 + data[1]
        return Subscription(Instruction(data[0]), data[2:end], data[end:])

    return Serde("subscriptions", write, read)


def answers(value: Serde) -> Serde:
    """Answers on their way: the hash with its length, whether there is a row, the row."""

    def write(answer: Any) -> bytes:
        row = value.to_bytes(answer.value)
        head: bytes = bytes((len(answer.hash), row is not None)) + answer.hash
        return head + (row or b"")

    def read(data: bytes) -> ForeignAnswer:
        end = 2 + data[0]
        return ForeignAnswer(data[2:end], value.read(data[end:]) if data[1] else None)

    return Serde("answers", write, read)


class Subscribe:
    """Turns updates of the left table into subscriptions under the foreign key."""

    def __init__(
        self, foreign_key: Callable[[Any, Any], Any], key: Serde, value: Serde, foreign: Serde, *, left: bool
    ) -> None:
        self._foreign_key, self._key, self._value, self._foreign, self._left = foreign_key, key, value, foreign, left

    def init(self, context: Context) -> None:
        """Take the way to the nodes behind."""
        self._context = context

    def process(self, record: Record) -> None:
        """Subscribe to the new row's foreign key, and leave the old row's one."""
        change = record.value
        if not change.latest:
            self._context.drop()
            return
        if change.old is None and change.new is None:
            return
        old = None if change.old is None else self._foreign_key(record.key, change.old)
        new = None if change.new is None else self._foreign_key(record.key, change.new)
        moved = old is not None and self._foreign.to_bytes(old) != self._foreign.to_bytes(new)
        if self._left:
            if moved:
                self._send(record, old, Instruction.DELETE)
            self._send(record, new, Instruction.ANSWER)
        elif new is None:
            if change.new is not None:
                self._context.drop()
            if old is not None:
                self._send(record, old, Instruction.DELETE_AND_ANSWER)
        elif moved:
            self._send(record, old, Instruction.DELETE)
            self._send(record, new, Instruction.ANSWER)
        else:
            self._send(record, new, Instruction.ANSWER_IF_PRESENT)

    def _send(self, record: Record, foreign_key: Any, instruction: Instruction) -> None:
        wanted = Subscription(instruction, row_hash(self._value, record.value.new), self._key.write(record.key))
        self._context.forward(replace(record, key=foreign_key, value=wanted))


class KeepSubscription:
    """Keeps the subscriptions of each foreign key."""

    def __init__(self, store: str, foreign: Serde) -> None:
        self._store_name, self._foreign = store, foreign

    def init(self, context: Context) -> None:
        """Take the store."""
        self._context = context
        self._store = context.store(self._store_name)

    def process(self, record: Record) -> None:
        """Keep or forget one subscription and send it on; one without a foreign key is only to be answered."""
        wanted = record.value
        if record.key is None:
            if wanted.instruction is not Instruction.ANSWER:
                self._context.drop()
                return
        else:
            gone = wanted.instruction in {Instruction.DELETE, Instruction.DELETE_AND_ANSWER}
            key = prefix(self._foreign, record.key) + wanted.key
            self._store.put(key, None if gone else wanted, record.timestamp)
        self._context.forward(record)


class AnswerSubscription:
    """Answers a subscription with the right table's row."""

    def __init__(self, right: View, key: Serde) -> None:
        self._right, self._key = right, key

    def init(self, context: Context) -> None:
        """Take the way to the right table's rows."""
        self._context = context
        self._row = self._right(context)

    def process(self, record: Record) -> None:
        """Answer if the subscription asks for it."""
        wanted = record.value
        row: Stamped | None = None if record.key is None else self._row(record.key)
        if wanted.instruction is Instruction.DELETE:
            return
        if wanted.instruction is Instruction.ANSWER_IF_PRESENT and row is None:
            return
        value = row.value if row and wanted.instruction is not Instruction.DELETE_AND_ANSWER else None
        time = max(record.timestamp, row.timestamp) if row else record.timestamp
        answer = ForeignAnswer(wanted.hash, value)
        self._context.forward(Record(self._key.read(wanted.key), answer, time, record.headers))


class TellSubscribers:
    """Sends an update of the right table to every left row that subscribed to it."""

    def __init__(self, store: str, key: Serde, foreign: Serde) -> None:
        self._store_name, self._key, self._foreign = store, key, foreign

    def init(self, context: Context) -> None:
        """Take the store."""
        self._context = context
        self._store = context.store(self._store_name)

    def process(self, record: Record) -> None:
        """Tell the subscribers of one row, in the order of their keys' bytes."""
        change: Change = record.value
        if record.key is None or not change.latest:
            self._context.drop()
            return
        for _, kept in list(self._store.prefix(prefix(self._foreign, record.key))):
            answer = ForeignAnswer(kept.value.hash, change.new)
            self._context.forward(replace(record, key=self._key.read(kept.value.key), value=answer))


class ResolveAnswer:
    """Joins an answer with the left row, if that is still the row that asked.

    In an inner join a row may not be answered at all, where it needs no joined row, and an earlier row was told that
    its own is gone. Where all answers of a batch come in one piece, that one counts for the row as it is now, unless
    the piece has a right row for it.
    """

    def __init__(self, this: View, key: Serde, value: Serde, joiner: Joiner, *, left: bool) -> None:
        self._this, self._key, self._value, self._joiner, self._left = this, key, value, joiner, left

    def init(self, context: Context) -> None:
        """Take the way to the left table's rows."""
        self._context = context
        self._row = self._this(context)
        self._piece: int | None = None
        self._joined: set[bytes] = set()

    def process(self, record: Record) -> None:
        """Send the joined row, or None for one that is no more; another answer to an earlier row is dropped."""
        row = self._row(record.key)
        this, other = row.value if row else None, record.value.value
        if row_hash(self._value, this) != record.value.hash:
            if other is None and self._has_none(record.key):
                self._context.forward(record.with_value(None))
            else:
                self._context.drop()
            return
        gone = other is None and (not self._left or this is None)
        if not gone and self._context.piece is not None:
            self._joined_in_piece().add(self._key.write(record.key))
        self._context.forward(record.with_value(None if gone else self._joiner(this, other)))

    def _has_none(self, key: Any) -> bool:
        """True if a key has no joined row after this piece of a batch, as far as its answers have come."""
        whole = not self._left and self._context.piece is not None
        return whole and self._key.write(key) not in self._joined_in_piece()

    def _joined_in_piece(self) -> set[bytes]:
        """The keys with a joined row of this piece."""
        if self._piece != self._context.piece:
            self._piece, self._joined = self._context.piece, set()
        return self._joined


def prefix(foreign: Serde, key: Any) -> bytes:
    """The beginning of the keys of a foreign key's subscriptions."""
    written: bytes = foreign.write(key)
    return LENGTH.pack(len(written)) + written
