"""One-record Produce through connection, dispatch, partition and log, without a socket: microseconds per request.

`python -m bench.hot_path [--profile]`. Compare commits on one machine only.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import pstats
import struct
import tempfile
import time

from ottla.kernel.story import run_story
from ottla.records.builder import build_batch
from ottla.records.reader import Record
from ottla.server.broker_server import BrokerServer, ended
from ottla.server.main import new_event_loop
from ottla.wire.connection import ServerConnection
from ottla.wire.frame import FramePool, FrameReader

PER_READ, COUNT = 100, 50_000


class Sink:
    """A transport that counts answers."""

    unsent_bytes = 0
    answers = 0

    def send(self, parts: list[bytes]) -> None:
        self.answers += len(parts)

    def cork(self) -> None:
        pass

    def uncork(self) -> None:
        pass

    def close(self) -> None:
        raise AssertionError("the broker closed the connection")


def frame(acks: int) -> bytes:
    batch = build_batch([Record(0, int(time.time() * 1000), None, b"x" * 200, ())])
    body = struct.pack(">hhih", 0, 7, 1, 5) + b"bench" + struct.pack(">hhi", -1, acks, 30_000)
    body += struct.pack(">ih", 1, 1) + b"t" + struct.pack(">iii", 1, 0, len(batch)) + batch
    return struct.pack(">i", len(body)) + body


async def run(server: BrokerServer, acks: int) -> float:
    """Run all requests; return CPU microseconds of this process per request."""
    assert server.node is not None
    sink = Sink()
    connection = ServerConnection(
        FrameReader(memoryview(bytearray(1 << 20)), FramePool(1 << 28), 1 << 20), sink, server.node.dispatch.serve,
        name="bench", peer_host="127.0.0.1", local_address=("127.0.0.1", 0), listener="PLAINTEXT",
    )  # fmt: skip
    data = frame(acks) * PER_READ
    began = time.process_time()
    for done in range(PER_READ, COUNT + 1, PER_READ):
        target = connection.reader.target()
        assert target is not None
        target[: len(data)] = data
        connection.reader.received(len(data))
        connection.run()
        while sink.answers < done - 5 * PER_READ:
            await asyncio.sleep(0.0002)
        await asyncio.sleep(0)
    return (time.process_time() - began) / COUNT * 1e6


async def main(profile: bool) -> None:
    loop = asyncio.get_running_loop()
    with tempfile.TemporaryDirectory() as directory:
        server = BrokerServer(loop, {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": directory})
        await server.start()
        assert server.node is not None
        await ended(run_story(server.node.services.create_topic_as_configured("t")))
        for acks in (1, -1):
            figures = sorted([await run(server, acks) for _ in range(5)])
            print(f"acks={acks:2}  median {figures[2]:5.1f} us   ({figures[0]:.1f} to {figures[-1]:.1f})")
        if profile:
            profiler = cProfile.Profile()
            profiler.enable()
            await run(server, 1)
            profiler.disable()
            pstats.Stats(profiler).sort_stats("tottime").print_stats(30)
        await server.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.hot_path", description=__doc__)
    parser.add_argument("--profile", action="store_true", help="where the time goes at acks=1")
    chosen = parser.parse_args()
    event_loop = new_event_loop()
    event_loop.run_until_complete(main(chosen.profile))
