"""All that a task is made of, and the faults that end it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ottla.client.errors import ProducerFenced, TransactionAborted, TransactionMustAbort
from ottla.connect.errors import ConfigException
from ottla.connect.plugins.known import AnyConnector
from ottla.connect.tasks.counts import TaskCounts
from ottla.jobs.running import error_fault
from ottla.jobs.states import JobFault
from ottla.kernel.errors import ApiError, ErrorCode

_ENDED: Final = (
    ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.PRODUCER_FENCED, ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.TRANSACTION_ABORTABLE,
)  # fmt: skip


class TaskFault(Exception):
    """A fault that was judged where it came about, in another process."""

    def __init__(self, fault: JobFault) -> None:
        super().__init__(fault.reason)
        self.fault = fault


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """One task of a connector."""

    connector: str
    number: int
    plugin: AnyConnector
    connector_config: Mapping[str, str]
    """The connector's configuration as it was given, with `${…}` unresolved."""
    task_config: Mapping[str, str]
    """One of those that the connector's `tasks` gave, with `${…}` unresolved."""
    worker: Mapping[str, str] = field(default_factory=dict)
    """The worker's properties: brokers, converters, client options behind `producer.` and `consumer.`."""
    counts: TaskCounts = field(default_factory=TaskCounts, compare=False)
    """The numbers of what the task has done."""

    @property
    def name(self) -> str:
        """`NAME-0`, as Kafka names a task in logs and client ids."""
        return f"{self.connector}-{self.number}"

    def fault_of(self, error: Exception) -> JobFault:
        """The fault that an error of the task is. The connector knows which of its own may pass."""
        if isinstance(error, TaskFault):
            return error.fault
        fault = error_fault(error)
        causes = [error, *([error.__cause__] if isinstance(error.__cause__, Exception) else [])]
        if any(isinstance(each, ConfigException) for each in causes):
            return JobFault(fault.reason, fault.trace)
        may_pass = any(error_fault(each).may_pass or self.plugin.restarts(each) or _ended(each) for each in causes)
        return JobFault(fault.reason, fault.trace, may_pass=may_pass)


def _ended(error: Exception) -> bool:
    """True if the brokers ended a transaction, or fenced its producer: the next attempt begins with a new one."""
    if isinstance(error, ApiError):
        return error.code in _ENDED
    return isinstance(error, ProducerFenced | TransactionMustAbort | TransactionAborted)
