"""Clusters of three brokers, Apache Kafka's and ours, with one interface for tests."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from apache_kafka import ApacheKafka
from secured_brokers import SecuredBrokers
from tests.ports import free_port
from tests.server.cluster_processes import OttlaCluster, until
from tests.server.processes import as_options

from ottla.client.blocking.admin import Admin

NUMBERS = (1, 2, 3)
SELECTOR = "replica.selector.class"
SETTINGS = {"offsets.topic.num.partitions": "2", "replica.lag.time.max.ms": "3000"}


class ApacheCluster:
    """Three nodes; the first is the controller too."""

    def __init__(self, settings: Mapping[str, str] = SETTINGS, secured: SecuredBrokers | None = None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="apache-cluster-"))
        self.settings, self.secured = settings, secured
        controller = free_port()
        self.nodes = {number: self._node(number, controller) for number in NUMBERS}

    def _node(self, number: int, controller: int) -> ApacheKafka:
        folder = self.folder / str(number)
        folder.mkdir()
        node = ApacheKafka(secured=self.secured, heap="256m", folder=folder)
        node.settings = {
            "node.id": str(number),
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "process.roles": "broker,controller" if number == 1 else "broker",
            "listeners": f"{node.listener},CONTROLLER://127.0.0.1:{controller}" if number == 1 else node.listener,
            **self.settings,
            **rack(self.settings, number),
        }
        return node

    @property
    def security(self) -> dict[str, str]:
        return security(self.secured)

    @property
    def bootstrap(self) -> str:
        """The first two brokers: tests stop the third."""
        return ",".join(self.address(number) for number in (1, 2))

    def address(self, number: int) -> str:
        return self.nodes[number].bootstrap

    def __enter__(self) -> ApacheCluster:
        for node in self.nodes.values():
            node.start()
        wait_for_brokers(self.bootstrap, 3, self.security)
        return self

    def __exit__(self, *_: object) -> None:
        for number in NUMBERS:
            self.kill(number)
        shutil.rmtree(self.folder, ignore_errors=True)

    def kill(self, number: int) -> None:
        self.nodes[number].kill()

    def stop(self, number: int) -> None:
        self.nodes[number].stop(keep=True)

    def start(self, number: int) -> None:
        self.nodes[number].start()


class TemporaryCluster(OttlaCluster):
    """Three processes that share a store, in a folder of their own that is removed in the end."""

    def __init__(self, settings: Mapping[str, str] = SETTINGS, secured: SecuredBrokers | None = None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="ottla-cluster-"))
        self.security = security(secured)
        options = settings if secured is None else {**secured.options(), **settings}
        super().__init__(self.folder, len(NUMBERS), *as_options(options))
        for number, broker in self.brokers.items():
            broker.options += as_options(rack(settings, number))

    @property
    def bootstrap(self) -> str:
        return ",".join(self.address(number) for number in (1, 2))

    def last_words(self) -> str:
        return "\n".join(broker.log()[-2000:] for broker in self.brokers.values())

    def __enter__(self) -> Self:
        super().__enter__()
        wait_for_brokers(self.bootstrap, len(NUMBERS), self.security)
        return self

    def __exit__(self, *exception: object) -> None:
        super().__exit__(*exception)
        shutil.rmtree(self.folder, ignore_errors=True)


def rack(settings: Mapping[str, str], number: int) -> dict[str, str]:
    """A broker's own rack, named as librdkafka's tests expect, if readers are sent to a replica of their rack."""
    return {"broker.rack": f"RACK{number}"} if SELECTOR in settings else {}


def security(secured: SecuredBrokers | None) -> dict[str, str]:
    """The options of our clients beside the address."""
    return {} if secured is None else secured.security


def wait_for_brokers(bootstrap: str, count: int, security: Mapping[str, str] | None = None) -> None:
    with Admin(bootstrap, security=security or {}) as admin:
        until(lambda: len(admin.describe_cluster().brokers) == count)
