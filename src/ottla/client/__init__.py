"""A Kafka client: one sans-IO core (stories in `plan`, `admin`, `producing`, `consuming`) with two faces.

`blocking.py` drives the stories over sockets, `aio.py` over asyncio. Start at `blocking.Cluster`, `Admin`,
`Producer` or `Consumer`.
"""
