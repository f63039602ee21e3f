"""The asyncio face: `aio.Admin`, `aio.Cluster`, `aio.Consumer`, `aio.Producer`."""

from ottla.client.aio.admin import Admin as Admin
from ottla.client.aio.cluster import Cluster as Cluster
from ottla.client.aio.consumer import Consumer as Consumer
from ottla.client.aio.producer import Producer as Producer
