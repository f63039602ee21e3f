"""An instance of Streams, a lake, a pipeline and an audit log, as consoles show them beside a cluster."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from ottla import lake
from ottla.access.audit import AuditEnd, audit_line
from ottla.client import Producer
from ottla.console.desk import ConsoleSetting, links
from ottla.metrics.metric import Sample
from ottla.pipeline.reading import PipelineFile
from ottla.streams import TEXT, StreamsBuilder
from ottla.streams.connection import connection
from ottla.streams.live import Ends
from ottla.streams.queries import Answer, Query
from ottla.streams.served import QueryServer
from ottla.streams.stores import Store
from ottla.testing import TestBroker

PIPELINE = """
pipeline: shop
cluster: {{bootstrap: "{bootstrap}"}}
topics:
  orders: {{partitions: 3}}
  orders-dlq:
connectors:
  out: {{connector.class: FileStreamSink, topics: orders, file: out.txt, errors.tolerance: all,
         errors.deadletterqueue.topic.name: orders-dlq}}
"""


class Counting:
    """An instance that has counted some words."""

    def status(self, ends: Ends) -> dict[str, Any]:
        found = {"application": "counting", "state": "running", "tasks": ["0_0"], "stores": {"counts": 42}}
        return {**found, "dropped": {"COUNT": 3}, "failed": {}, "lag": 7}

    def metrics(self, ends: Ends) -> list[Sample]:
        return []

    def ask(self, name: str, query: Callable[[Store], Query], ends: Ends) -> Answer:
        raise AssertionError("no page asks for rows")


@contextmanager
def instance(bootstrap: str) -> Iterator[str]:
    """The URL of an instance."""
    builder = StreamsBuilder(key=TEXT, value=TEXT)
    builder.stream("orders").map_values(str.upper).to("shouted")
    with closing(QueryServer(Counting(), builder.build(), connection(bootstrap), host="127.0.0.1", port=0)) as server:
        yield server.url


def run_status(folder: Path, bootstrap: str, **parts: str) -> None:
    """Keep a status as a run of the pipeline does."""
    state = folder / ".ottla" / "shop"
    state.mkdir(parents=True, exist_ok=True)
    status = {"pid": os.getpid(), "bootstrap": bootstrap, "parts": {"connector out": "running", **parts}}
    (state / "status.json").write_text(json.dumps(status))


def audit_log(path: Path, *events: str) -> None:
    """Write a log as a broker does, with its noted end."""
    end, lines = AuditEnd(), []
    for event in events:
        told = {"time": 1.5, "broker": 1, "event": event, "principal": "User:anna", "outcome": ["NONE"]}
        line, end = audit_line(told, end)
        lines.append(line)
    path.write_text("".join(lines))
    Path(f"{path}.last").write_text(json.dumps({"number": end.lines, "chain": end.chain}))


@contextmanager
def everything(broker: TestBroker, folder: Path) -> Iterator[ConsoleSetting]:
    """A console that was told of one of each."""
    bootstrap = broker.bootstrap_servers
    with Producer(bootstrap) as producer:
        producer.produce("loaded", "one", timestamp=1_000_000_000_000).result()
        lake.load("loaded", to=folder / "lake", bootstrap=bootstrap, on="local", tell=lambda line: None)
        producer.produce("loaded", "two").result()
    (folder / "shop.yaml").write_text(PIPELINE.format(bootstrap=bootstrap))
    run_status(folder, bootstrap)
    audit_log(folder / "audit.log", "login", "refused", "change")
    with instance(bootstrap) as url:
        yield ConsoleSetting(
            bootstrap,
            streams=links([url]),
            lakes=(str(folder / "lake"),),
            pipelines=(PipelineFile.read(str(folder / "shop.yaml")),),
            audit_log=(str(folder / "audit.log"),),
        )
