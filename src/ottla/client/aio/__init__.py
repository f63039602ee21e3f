"""The asyncio face: `aio.Cluster`, `aio.Producer`, `aio.Consumer`."""

from ottla.client.aio.cluster import Cluster as Cluster
from ottla.client.aio.consumer import Consumer as Consumer
from ottla.client.aio.producer import Producer as Producer
