#!/usr/bin/env python
"""Counts the modules that one request crosses in a running broker, and the switches from one to another.

    python tools/rooms.py                  a record produced, first and again; its fetch; a new topic
    python tools/rooms.py --walk           the same, with every step in its order
    python tools/rooms.py --format json

A switch is a call from code of one module into code of another; a return is none. All threads of the broker count, so
the sync of the disk and the store of the metadata log are included. Timers that run at the same time would be counted
too, so each request is made several times, and its shortest walk is shown.
"""

from __future__ import annotations

import argparse
import json
import socket
import struct
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from ottla.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.messages.headers import RequestHeader
from ottla.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.records.builder import build_batch
from ottla.records.reader import Record
from ottla.schema.codec import decoder, encode
from ottla.testing import TestBroker
from ottla.wire.apis import APIS

PRODUCE, FETCH, METADATA, CREATE_TOPICS = 0, 1, 3, 19
VERSIONS = {PRODUCE: 13, FETCH: 17, METADATA: 13, CREATE_TOPICS: 7}
TRIES = 5
_OUTSIDE = ("ottla.testing",)
"""Modules that a broker of its own process would not run."""


@dataclass
class Step:
    """A call into another module: the function, and the depth of the call."""

    module: str
    function: str
    depth: int
    times: int = 1


@dataclass
class Walk:
    """The steps of one request in one run, by thread."""

    name: str
    steps: dict[int, list[Step]] = field(default_factory=dict)

    @property
    def modules(self) -> list[str]:
        """Modules in the order in which they are first entered, those of the loop's thread before others."""
        return list(dict.fromkeys(step.module for steps in self.steps.values() for step in steps))

    @property
    def switches(self) -> int:
        return sum(step.times for steps in self.steps.values() for step in steps)

    def as_json(self) -> dict[str, Any]:
        walk = [[vars(step) for step in steps] for steps in self.steps.values()]
        return {"name": self.name, "modules": self.modules, "switches": self.switches, "walk": walk}


class Tracer:
    """Traces calls in threads that start after `install`; notes those across modules during a walk."""

    def __init__(self) -> None:
        self._walk: Walk | None = None
        self._places: dict[FrameType, tuple[str, int]] = {}
        """(module, depth) of each running frame of ours."""

    def install(self) -> None:
        threading.setprofile(self._profile)

    def remove(self) -> None:
        threading.setprofile(None)

    def begin(self, name: str) -> None:
        self._places = {}
        self._walk = Walk(name)

    def end(self) -> Walk:
        walk, self._walk = self._walk, None
        assert walk is not None
        return walk

    def _profile(self, frame: FrameType, event: str, argument: object) -> None:
        walk = self._walk
        if walk is None:
            return
        if event == "return":
            self._places.pop(frame, None)
        elif event == "call":
            module = str(frame.f_globals.get("__name__", ""))
            if module.startswith("ottla.") and not module.startswith(_OUTSIDE):
                caller, depth = self._caller(frame)
                if module != caller:
                    depth += 1
                    _note(walk, Step(module.removeprefix("ottla."), frame.f_code.co_qualname, depth))
                self._places[frame] = (module, depth)

    def _caller(self, frame: FrameType) -> tuple[str, int]:
        """The nearest calling frame of ours; foreign frames in between only forward the call."""
        above = frame.f_back
        while above is not None:
            place = self._places.get(above)
            if place is not None:
                return place
            above = above.f_back
        return "", 0


def _note(walk: Walk, step: Step) -> None:
    steps = walk.steps.setdefault(threading.get_ident(), [])
    last = steps[-1] if steps else None
    if last is not None and (last.module, last.function, last.depth) == (step.module, step.function, step.depth):
        last.times += 1
    else:
        steps.append(step)


class Client:
    """A blocking connection in a thread that is not traced."""

    def __init__(self, broker: TestBroker) -> None:
        host, _, port = broker.bootstrap_servers.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=30)

    def ask(self, key: int, request: Any) -> Any:
        api, version = APIS[key], VERSIONS[key]
        header = RequestHeader(request_api_key=key, request_api_version=version, correlation_id=1, client_id="rooms")
        frame = encode(header, api.request_header_version(version)) + encode(request, version)
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)
        (size,) = struct.unpack(">i", self._exactly(4))
        answer, _ = decoder(api.response, version)(
            memoryview(self._exactly(size)), 4 + api.response_header_version(version)
        )
        return answer

    def close(self) -> None:
        self._socket.close()

    def _exactly(self, count: int) -> bytes:
        found = self._socket.recv(count, socket.MSG_WAITALL)
        if len(found) < count:
            raise ConnectionError("the broker closed the connection")
        return found


def new_topic(name: str) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)])


def produce(topic_id: bytes, value: bytes) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=build_batch([Record(0, 1_700_000_000_000, None, value)]))
    return ProduceRequest(
        acks=-1, timeout_ms=5000, topic_data=[TopicProduceData(topic_id=topic_id, partition_data=[data])]
    )


def fetch(topic_id: bytes) -> FetchRequest:
    place = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1 << 20,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[FetchTopic(topic_id=topic_id, partitions=[place])],
        forgotten_topics_data=[],
        rack_id="",
    )


def shortest(walks: list[Walk]) -> Walk:
    return min(walks, key=lambda walk: (walk.switches, len(walk.modules)))


class Rounds:
    """The requests, each made several times by clients of one broker."""

    def __init__(self, broker: TestBroker, tracer: Tracer) -> None:
        self._broker = broker
        self._tracer = tracer

    def _traced(self, name: str, ask: Callable[[], Any]) -> Walk:
        self._tracer.begin(name)
        ask()
        self._broker.call(lambda: None)  # the loop has finished the request's work by then
        return self._tracer.end()

    def walks(self) -> list[Walk]:
        """The shortest walk of each request."""
        by_name: dict[str, list[Walk]] = {}
        for number in range(TRIES + 1):  # in the first round modules are imported and codecs compiled
            client = Client(self._broker)
            client.ask(METADATA, MetadataRequest(topics=[]))  # the broker has accepted the connection then
            for walk in self._round(client, f"rooms-{number}"):
                if number:
                    by_name.setdefault(walk.name, []).append(walk)
            client.close()
        return [shortest(walks) for walks in by_name.values()]

    def _round(self, client: Client, topic: str) -> list[Walk]:
        created = self._traced("a new topic", lambda: client.ask(CREATE_TOPICS, new_topic(topic)))
        asked = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
        topic_id = client.ask(METADATA, asked).topics[0].topic_id
        first = self._traced("a record, first", lambda: client.ask(PRODUCE, produce(topic_id, b"one")))
        again = self._traced("a record, again", lambda: client.ask(PRODUCE, produce(topic_id, b"two")))
        fetched = self._traced("a fetch", lambda: client.ask(FETCH, fetch(topic_id)))
        return [first, again, fetched, created]


def traced_walks() -> list[Walk]:
    """The walks of one broker with its files in a temporary directory."""
    tracer = Tracer()
    with tempfile.TemporaryDirectory() as directory:
        broker = TestBroker(directory=directory)
        tracer.install()
        try:
            with broker:
                return Rounds(broker, tracer).walks()
        finally:
            tracer.remove()


def table(walks: list[Walk]) -> str:
    lines = [f"{'':<18}{'modules':>8}{'switches':>10}"]
    lines += [f"{walk.name:<18}{len(walk.modules):>8}{walk.switches:>10}" for walk in walks]
    return "\n".join(lines)


def in_order(walk: Walk) -> str:
    """The walk as text: a line for each step, and a blank line between threads."""
    threads = [
        "\n".join(
            f"{'  ' * step.depth}{step.module}  {step.function}{f'  x{step.times}' if step.times > 1 else ''}"
            for step in steps
        )
        for steps in walk.steps.values()
    ]
    return f"{walk.name}\n" + "\n\n".join(threads)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument("--walk", action="store_true", help="every step in its order, below the table")
    chosen = parser.parse_args(arguments)
    walks = traced_walks()
    if chosen.format == "json":
        print(json.dumps([walk.as_json() for walk in walks], indent=1))
        return 0
    print(table(walks))
    for walk in walks if chosen.walk else ():
        print("\n" + in_order(walk))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
