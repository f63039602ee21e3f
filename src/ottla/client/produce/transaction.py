"""One transactional id as its producer sees it: the allowed steps, and the effects of errors on the transaction.

Pure. `transacting` asks the brokers and tells this machine the outcome.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from ottla.client.errors import (
    ClientError,
    InvalidTransactionState,
    ProducerFenced,
    TransactionAborted,
    TransactionFailed,
    TransactionMustAbort,
    UnsupportedVersion,
    may_retry,
)
from ottla.client.model import ProducerIdentity
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicPartition

FEATURE = "transaction.version"
BROKERS_ADD = 2
"""From this level of the feature on, brokers add partitions themselves and each transaction has its own epoch."""

_FENCED = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})
_FATAL = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    }
)
_FATAL_FROM_COORDINATOR = _FATAL | {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_TXN_STATE}
_ABORTABLE_COMMIT = frozenset({ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.UNKNOWN_PRODUCER_ID})


class ProducerPhase(Enum):
    """The producer's place between two transactions, or inside one."""

    UNINITIALIZED = "not initialized"
    READY = "no transaction is open"
    OPEN = "a transaction is open"
    DELIVERING = "the transaction is being committed: its records are being delivered"
    MUST_ABORT = "the transaction can only be aborted"
    COMMITTING = "the transaction is being committed"
    ABORTING = "the transaction is being aborted"
    FAILED = "the producer cannot go on"


class TransactionRequest(Enum):
    """The request that an error answers: the same code weighs differently."""

    INITIALIZE = "initializing"
    ADD = "adding partitions"
    PRODUCE = "producing"
    OFFSETS = "committing offsets"
    END = "ending the transaction"


class _Weight(Enum):
    TRY_AGAIN = 1
    ABORT = 2
    FATAL = 3


class ProducerTransaction:
    """The phase, the producer's identity, the content of the open transaction, and the error that ended it."""

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.phase = ProducerPhase.UNINITIALIZED
        self.identity = ProducerIdentity(-1, -1)
        self.version = 0
        """The level of `transaction.version` that the open or the next transaction uses."""
        self.partitions: set[TopicPartition] = set()
        self.groups: set[str] = set()
        self.fault: ClientError | None = None
        self.needs_new_epoch = False
        """True if a batch failed after it was sent: the next sequence that its partition expects is unknown then."""

    @property
    def brokers_add(self) -> bool:
        return self.version >= BROKERS_ADD

    @property
    def holds_something(self) -> bool:
        """True if the coordinator may know of the open transaction, so that it must be told of the end."""
        return bool(self.partitions or self.groups)

    @property
    def can_abort(self) -> bool:
        """True if there is a transaction whose commit was not asked for."""
        return self.phase in (
            ProducerPhase.OPEN,
            ProducerPhase.DELIVERING,
            ProducerPhase.MUST_ABORT,
            ProducerPhase.ABORTING,
        )

    def initialized(self, identity: ProducerIdentity, version: int) -> None:
        """The first answer to InitProducerId: older producers are fenced, sequences start at 0."""
        assert self.phase is ProducerPhase.UNINITIALIZED
        self.phase = ProducerPhase.READY
        self.identity = identity
        self.version = version

    def require_uninitialized(self) -> None:
        self._expect(ProducerPhase.UNINITIALIZED, "initialize")

    def begin(self) -> None:
        self._expect(ProducerPhase.READY, "begin a transaction")
        self.phase = ProducerPhase.OPEN

    def require_open(self) -> None:
        """Raise unless records and offsets can go into the transaction now."""
        self._expect(ProducerPhase.OPEN, "add to a transaction")

    def require_writable(self) -> None:
        """Raise unless batches of the transaction may be written: it is open, or delivered for its commit."""
        if self.phase is ProducerPhase.ABORTING:
            raise TransactionAborted(f"the transaction of {self.transactional_id!r} was aborted")
        if self.phase is not ProducerPhase.DELIVERING:
            self.require_open()

    def takes(self, partition: TopicPartition) -> bool:
        """True if batches of this partition may be written without another word to the coordinator."""
        added = self.brokers_add or partition in self.partitions
        return added and self.phase in (ProducerPhase.OPEN, ProducerPhase.DELIVERING)

    def not_yet_added(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        return sorted(set(partitions) - self.partitions)

    def begin_delivery(self) -> None:
        """Take nothing more into the transaction: what it holds is delivered, then it is committed."""
        if self.phase not in (ProducerPhase.DELIVERING, ProducerPhase.COMMITTING):
            self._expect(ProducerPhase.OPEN, "commit")
            self.phase = ProducerPhase.DELIVERING

    def begin_commit(self) -> None:
        """Begin the commit: only its end is left, which may be requested again after an unknown outcome."""
        if self.phase not in (ProducerPhase.DELIVERING, ProducerPhase.COMMITTING):
            self._expect(ProducerPhase.OPEN, "commit")
        self.phase = ProducerPhase.COMMITTING

    def begin_abort(self) -> None:
        """Like `begin_commit`. A commit of unknown outcome cannot be aborted: it may have happened."""
        if not self.can_abort:
            self._expect(ProducerPhase.OPEN, "abort")
        self.phase = ProducerPhase.ABORTING

    def wants_new_epoch(self, version: int) -> bool:
        """True if InitProducerId is to follow the end of this transaction, the next one going by `version`.

        With an epoch for each transaction, its end has brought a new one. Else unknown sequences need one,
        and so does the change to that protocol (KAFKA-18227).
        """
        return not self.brokers_add and (self.needs_new_epoch or version >= BROKERS_ADD)

    def ended(self, identity: ProducerIdentity, version: int) -> None:
        """Note the decided end, or that the coordinator knew of no transaction; the next one goes by these values."""
        assert self.phase in (ProducerPhase.COMMITTING, ProducerPhase.ABORTING)
        self.phase = ProducerPhase.READY
        self.identity = identity
        self.version = version
        self.needs_new_epoch = False
        self.partitions = set()
        self.groups = set()
        self.fault = None

    def batch_failed(self, error: Exception, *, was_sent: bool) -> None:
        """Note that a batch of the transaction finally failed."""
        self.needs_new_epoch |= was_sent
        if self.phase in (ProducerPhase.OPEN, ProducerPhase.DELIVERING, ProducerPhase.MUST_ABORT):
            self.failed(error, TransactionRequest.PRODUCE)

    def failed(self, error: Exception, step: TransactionRequest) -> Exception:
        """Take an error that no further attempt has cured; return the exception to raise for it.

        If a producer id or the end of a transaction could not be had in time, nothing changes and the error itself is
        returned: the same call may be made again.
        """
        if self.phase is ProducerPhase.FAILED or isinstance(error, (TransactionFailed, TransactionMustAbort)):
            return self.fault or error
        weight = self._weigh(error, step)
        if weight is _Weight.TRY_AGAIN:
            return error
        if weight is _Weight.ABORT:
            if self.fault is None:
                self.phase = ProducerPhase.MUST_ABORT
                self.fault = self._caused(TransactionMustAbort, f"failed while {step.value}: {error}", error)
            return self.fault
        self.phase = ProducerPhase.FAILED
        if isinstance(error, ApiError) and error.code in _FENCED:
            why = "another producer has taken it over, or its transaction took longer than transaction.timeout.ms"
            self.fault = self._caused(ProducerFenced, f"was fenced while {step.value}: {why}", error)
        else:
            self.fault = self._caused(TransactionFailed, f"failed while {step.value}: {error}", error)
        return self.fault

    def _weigh(self, error: Exception, step: TransactionRequest) -> _Weight:
        """Weigh an error as Java's client does. After a refused abort there is nothing else to try (KAFKA-19250)."""
        settling = step is TransactionRequest.END or step is TransactionRequest.INITIALIZE
        if isinstance(error, UnsupportedVersion):
            return _Weight.FATAL
        if not isinstance(error, ApiError) or may_retry(error):
            return _Weight.TRY_AGAIN if settling else _Weight.ABORT
        if settling:
            abortable = error.code in _ABORTABLE_COMMIT and self.phase is ProducerPhase.COMMITTING
            return _Weight.ABORT if abortable else _Weight.FATAL
        fatal = error.code in (_FATAL if step is TransactionRequest.PRODUCE else _FATAL_FROM_COORDINATOR)
        return _Weight.FATAL if fatal else _Weight.ABORT

    def _caused(self, kind: type[ClientError], text: str, cause: Exception) -> ClientError:
        fault = kind(f"transactional id {self.transactional_id!r} {text}")
        fault.__cause__ = cause
        return fault

    def _expect(self, phase: ProducerPhase, wish: str) -> None:
        if self.phase is phase:
            return
        if self.fault is not None and self.phase in (ProducerPhase.FAILED, ProducerPhase.MUST_ABORT):
            raise self.fault.with_traceback(None)
        raise InvalidTransactionState(
            f"cannot {wish} with transactional id {self.transactional_id!r}: {self.phase.value}"
        )
