"""A Kafka client: one core without sockets (stories in `plan`, `admin`, `producing`, `consuming`) with two faces.

`blocking.py` drives the stories over sockets, `aio.py` over asyncio. What most programs need is here:

    from ottla.client import Admin, Consumer, ConsumerSettings, Producer
    from ottla.client import aio  # aio.Producer, aio.Consumer, aio.Cluster
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.client.accumulator import Delivered as Delivered
    from ottla.client.accumulator import ProducerSettings as ProducerSettings
    from ottla.client.admin import NewTopic as NewTopic
    from ottla.client.audit_trail import AuditTrail as AuditTrail
    from ottla.client.blocking import Cluster as Cluster
    from ottla.client.blocking_admin import Admin as Admin
    from ottla.client.blocking_consumer import Consumer as Consumer
    from ottla.client.blocking_producer import Producer as Producer
    from ottla.client.consuming import ConsumerSettings as ConsumerSettings
    from ottla.client.errors import ClientError as ClientError
    from ottla.client.fetching import FetchSettings as FetchSettings
    from ottla.client.model import ClientSettings as ClientSettings
    from ottla.client.model import CommittedOffset as CommittedOffset
    from ottla.client.model import IsolationLevel as IsolationLevel
    from ottla.kernel.errors import ApiError as ApiError
    from ottla.kernel.ids import TopicPartition as TopicPartition

_PLACES = {
    "Admin": "ottla.client.blocking_admin",
    "ApiError": "ottla.kernel.errors",
    "AuditTrail": "ottla.client.audit_trail",
    "ClientError": "ottla.client.errors",
    "ClientSettings": "ottla.client.model",
    "Cluster": "ottla.client.blocking",
    "CommittedOffset": "ottla.client.model",
    "Consumer": "ottla.client.blocking_consumer",
    "ConsumerSettings": "ottla.client.consuming",
    "Delivered": "ottla.client.accumulator",
    "FetchSettings": "ottla.client.fetching",
    "IsolationLevel": "ottla.client.model",
    "NewTopic": "ottla.client.admin",
    "Producer": "ottla.client.blocking_producer",
    "ProducerSettings": "ottla.client.accumulator",
    "TopicPartition": "ottla.kernel.ids",
}
"""The module of each name: it is imported with the first use, so that a command imports only its own part."""


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(_PLACES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *_PLACES])
