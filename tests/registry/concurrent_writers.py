"""Writers that race at several instances of a registry, and checks of the topic afterwards."""

from __future__ import annotations

import json
import random
import threading
from collections import defaultdict
from collections.abc import Callable

import urllib3
from tests.registry.http_client import Http, record

from ottla.client.blocking.cluster import Cluster
from ottla.client.model import EARLIEST, LATEST
from ottla.kernel.ids import TopicPartition
from ottla.records.reader import Record, read_run
from ottla.registry import decide
from ottla.registry.decide import SchemaProposal
from ottla.registry.records import SchemaKey, SchemaValue, decode_key, decode_value
from ottla.registry.service import Registry
from ottla.registry.topic import pairs


def log_of(bootstrap: str, topic: str) -> list[Record]:
    with Cluster(bootstrap) as cluster:
        place = TopicPartition(topic, 0)
        first = cluster.list_offsets([place], EARLIEST)[place].offset
        end = cluster.list_offsets([place], LATEST)[place].offset
        pieces = cluster.fetch_range(topic, 0, first, end)
        return [each for piece in pieces for each in read_run(piece.records)]


def check_ids(bootstrap: str, topic: str) -> dict[str, int]:
    """Check in the topic that each content has one id and each id one content; return the ids by content."""
    ids: dict[str, int] = {}
    contents: dict[int, str] = {}
    versions: dict[tuple[str, int], str] = {}
    for each in log_of(bootstrap, topic):
        assert each.key is not None
        key = decode_key(each.key)
        value = decode_value(key, each.value)
        if isinstance(key, SchemaKey) and isinstance(value, SchemaValue):
            assert ids.setdefault(value.schema, value.id) == value.id
            assert contents.setdefault(value.id, value.schema) == value.schema
            assert versions.setdefault((key.subject, key.version), value.schema) == value.schema
    return ids


class Writers:
    """Threads that register the same schemas in different orders at several instances, and note the answers."""

    def __init__(self, urls: Callable[[], list[str]], schemas: int, threads: int) -> None:
        self._urls = urls
        self._schemas = schemas
        self.told: dict[str, set[int]] = defaultdict(set)
        self._lock = threading.Lock()
        self.threads = [threading.Thread(target=self._write, args=[seed]) for seed in range(threads)]
        self.faults: list[BaseException] = []

    def run(self) -> None:
        for thread in self.threads:
            thread.start()
        for thread in self.threads:
            thread.join(90)
        assert not any(thread.is_alive() for thread in self.threads)
        assert not self.faults, self.faults

    def _write(self, seed: int) -> None:
        chance = random.Random(seed)
        order = list(range(self._schemas))
        chance.shuffle(order)
        try:
            for number in order:
                self._register(chance, seed, number)
        except BaseException as fault:
            self.faults.append(fault)

    def _register(self, chance: random.Random, seed: int, number: int) -> None:
        """Register until an instance answers; a killed one does not."""
        text = json.dumps(record(f"R{number}", "x"), separators=(",", ":"))
        for _ in range(1_000):
            try:
                answer = Http(chance.choice(self._urls())).register(f"s{number % 7}-{seed % 2}", text)
            except urllib3.exceptions.HTTPError:
                continue
            if answer.status == 200:
                with self._lock:
                    self.told[text].add(answer.json["id"])
                return
            assert answer.status == 500, answer.json
        raise AssertionError(f"schema {number} could not be registered")


def free_of_rules(url: str) -> None:
    assert Http(url)("PUT", "/config", {"compatibility": "NONE"}).status == 200


async def a_stale_append(bootstrap: str, topic: str) -> None:
    """Append what a stopped process decided long ago: the append must be refused."""
    async with Registry(bootstrap, topic=topic) as zombie, Registry(bootstrap, topic=topic) as living:
        await zombie.write(lambda state: decide.register(state, "a", SchemaProposal('"int"')))
        await zombie.topic.catch_up()
        stale = decide.register(zombie.state, "b", SchemaProposal('"long"'))
        place = zombie.topic._place
        for kind in ("string", "bytes", "double"):
            proposal = SchemaProposal(f'"{kind}"')
            await living.write(lambda state, proposal=proposal: decide.register(state, proposal.schema, proposal))
        zombie.topic._place = place
        assert not await zombie.topic.append(pairs(stale.records))
        value = await zombie.write(lambda state: decide.register(state, "b", SchemaProposal('"long"')))
        assert value.id == 5
