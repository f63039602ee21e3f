"""Errors between a client and a cluster; each sentence names a remedy.

An error code in an answer is an `ApiError` of the ground floor; everything else is a `ClientError`.
"""

from __future__ import annotations

from ottla.kernel.errors import ApiError, ErrorCode


class ClientError(Exception):
    """The request could not be carried out; `retriable` says whether another attempt may help.

    Calls of the client have made their attempts already when they raise a retriable one.
    """

    retriable = False


class BrokerUnreachable(ClientError):
    """No connection could be made."""

    retriable = True


class NoBrokerAnswers(BrokerUnreachable):
    """No connection could be made to any address: those given first, and those of the brokers known since."""


class ConnectionLost(ClientError):
    """The connection ended while an answer was due: whether the request took effect is not known."""

    retriable = True


class RequestTimedOut(ClientError):
    """No answer in time: whether the request took effect is not known."""

    retriable = True


AWAY = (BrokerUnreachable, ConnectionLost, RequestTimedOut)
"""The errors of a broker that is away."""


class UnsupportedVersion(ClientError):
    """The broker does not serve the API in any version that this client speaks."""


class ProtocolViolation(ClientError):
    """The peer sent bytes that no Kafka broker sends."""


class MetadataMissing(ClientError):
    """A topic, partition or leader did not appear in the cluster's metadata in time."""

    retriable = True


class InvalidTransactionState(ClientError):
    """The call does not fit here, such as producing before `begin_transaction`; nothing was changed."""


class TransactionMustAbort(ClientError):
    """The transaction cannot be committed any more: abort it, then begin another. `__cause__` says why."""


class TransactionAborted(ClientError):
    """The record was not delivered: its transaction was aborted before."""


class TransactionFailed(ClientError):
    """The producer cannot go on with its transactional id: close it. `__cause__` says why."""


class ProducerFenced(TransactionFailed):
    """Another producer with the same transactional id has taken over, or the coordinator has timed this one out."""


class Refused(ApiError):
    """An error code in an answer: its subject `about`, and the broker's own words `reason` (None if it had none)."""

    def __init__(self, code: ErrorCode, about: str, reason: str | None = None) -> None:
        super().__init__(code, f"{about}: {reason or code.message}")
        self.about = about
        self.reason = reason


def refused(code: int, about: str, message: str | None = None) -> Refused:
    """An answer's error code as an exception that names its subject."""
    try:
        known = ErrorCode(code)
    except ValueError:
        return Refused(ErrorCode.UNKNOWN_SERVER_ERROR, about, f"error code {code}, unknown to this client")
    return Refused(known, about, message or None)


def may_retry(error: Exception) -> bool:
    """True if another attempt may help."""
    if isinstance(error, ClientError):
        return error.retriable
    return isinstance(error, ApiError) and error.code.retriable
