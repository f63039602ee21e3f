"""Looks at a whole cluster: its brokers and replicas, and the load of each broker.

`ottla cluster status` prints them, `ottla cluster up` shows them all the time. admin/overview.py and admin/loads.py
count what the brokers answer.
"""

from __future__ import annotations

from ottla.client.admin.loads import Load, Told, measured
from ottla.client.admin.overview import ClusterOverview, overview_of
from ottla.client.blocking.admin import Admin
from ottla.client.model import Broker


def cluster_overview(admin: Admin) -> ClusterOverview:
    """Ask the cluster; raises the client's error where no broker answers."""
    cluster = admin.describe_cluster()
    topics = [list(view.partitions.values()) for view in admin.list_topics().values()]
    brokers = {one.broker_id: Broker(one.broker_id, one.host, one.port, one.rack) for one in cluster.brokers}
    return overview_of(cluster.cluster_id, cluster.controller_id, brokers, topics)


class Meter:
    """Looks at the load again and again; rates are those since the look before."""

    def __init__(self) -> None:
        self._before: dict[int, Told] = {}

    def look(self, admin: Admin) -> dict[int, Load]:
        """Ask every living broker; one that does not answer has no entry, unless others report its lag."""
        told = admin.broker_loads()
        loads = measured(self._before, told, admin.describe_log_dirs())
        self._before = told
        return loads
