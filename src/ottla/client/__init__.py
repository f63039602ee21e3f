"""A Kafka client: one core without sockets (stories in `plan`, `admin`, `producing`, `consuming`) with two faces.

`blocking/` drives the stories over sockets, `aio/` over asyncio; `faces/` declares the calls that both have.
Most programs need only these names:

    from ottla.client import Admin, Consumer, Producer
    from ottla.client import aio  # aio.Producer, aio.Consumer, aio.Admin, aio.Cluster
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.client.admin.admin import NewTopic as NewTopic
    from ottla.client.blocking.admin import Admin as Admin
    from ottla.client.blocking.cluster import Cluster as Cluster
    from ottla.client.blocking.consumer import Consumer as Consumer
    from ottla.client.blocking.producer import Producer as Producer
    from ottla.client.blocking.topic_table import TopicTable as TopicTable
    from ottla.client.consume.settings import ConsumerSettings as ConsumerSettings
    from ottla.client.consume.settings import FetchSettings as FetchSettings
    from ottla.client.errors import BrokerUnreachable as BrokerUnreachable
    from ottla.client.errors import ClientError as ClientError
    from ottla.client.errors import ProducerFenced as ProducerFenced
    from ottla.client.errors import RequestTimedOut as RequestTimedOut
    from ottla.client.errors import TransactionMustAbort as TransactionMustAbort
    from ottla.client.model import ClientSettings as ClientSettings
    from ottla.client.model import CommittedOffset as CommittedOffset
    from ottla.client.model import ConsumedRecord as ConsumedRecord
    from ottla.client.model import IsolationLevel as IsolationLevel
    from ottla.client.produce.accumulator import Delivered as Delivered
    from ottla.client.produce.audit_trail import AuditTrail as AuditTrail
    from ottla.client.produce.settings import ProducerSettings as ProducerSettings
    from ottla.kernel.errors import ApiError as ApiError
    from ottla.kernel.errors import ErrorCode as ErrorCode
    from ottla.kernel.ids import TopicPartition as TopicPartition

__all__ = [
    "Admin",
    "ApiError",
    "AuditTrail",
    "BrokerUnreachable",
    "ClientError",
    "ClientSettings",
    "Cluster",
    "CommittedOffset",
    "ConsumedRecord",
    "Consumer",
    "ConsumerSettings",
    "Delivered",
    "ErrorCode",
    "FetchSettings",
    "IsolationLevel",
    "NewTopic",
    "Producer",
    "ProducerFenced",
    "ProducerSettings",
    "RequestTimedOut",
    "TopicPartition",
    "TopicTable",
    "TransactionMustAbort",
    "aio",
]

_PLACES = {
    "Admin": "ottla.client.blocking.admin",
    "ApiError": "ottla.kernel.errors",
    "AuditTrail": "ottla.client.produce.audit_trail",
    "BrokerUnreachable": "ottla.client.errors",
    "ClientError": "ottla.client.errors",
    "ClientSettings": "ottla.client.model",
    "Cluster": "ottla.client.blocking.cluster",
    "CommittedOffset": "ottla.client.model",
    "ConsumedRecord": "ottla.client.model",
    "Consumer": "ottla.client.blocking.consumer",
    "ConsumerSettings": "ottla.client.consume.settings",
    "Delivered": "ottla.client.produce.accumulator",
    "ErrorCode": "ottla.kernel.errors",
    "FetchSettings": "ottla.client.consume.settings",
    "IsolationLevel": "ottla.client.model",
    "NewTopic": "ottla.client.admin.admin",
    "Producer": "ottla.client.blocking.producer",
    "ProducerFenced": "ottla.client.errors",
    "ProducerSettings": "ottla.client.produce.settings",
    "RequestTimedOut": "ottla.client.errors",
    "TopicPartition": "ottla.kernel.ids",
    "TopicTable": "ottla.client.blocking.topic_table",
    "TransactionMustAbort": "ottla.client.errors",
}
"""The module of each name: it is imported with the first use, so that a command imports only its own part."""


def __getattr__(name: str) -> object:
    if name == "aio":
        return import_module("ottla.client.aio")
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(_PLACES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *_PLACES])
