"""The asyncio face: `aio.Cluster`, `aio.Producer`, `aio.Consumer`."""

from ottla.client.aio.clients import Consumer as Consumer
from ottla.client.aio.clients import Producer as Producer
from ottla.client.aio.cluster import Cluster as Cluster
