"""Record the frames that a real client and a broker exchange, through a proxy between them.

    python tools/capture_frames.py --broker HOST:PORT --listen PORT --client NAME --out FILE -- COMMAND...

The broker has to advertise the proxy's address, so that the client stays on it. COMMAND runs until it ends. FILE gets
a line for each frame: client, API key, version, `request` or `response`, and the frame without its size in hex. Of
each client, key and version the first few different frames are kept, and none that is too large.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import collections.abc
import sys
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Capture:
    """The frames seen so far: lines to write, and how many there are of each kind."""

    client: str
    most: int
    largest: int
    lines: dict[str, None] = field(default_factory=dict)
    seen: collections.Counter[tuple[int, int, str]] = field(default_factory=collections.Counter)

    def keep(self, key: int, version: int, direction: str, frame: bytes) -> None:
        line = f"{self.client} {key} {version} {direction} {frame.hex()}"
        if len(frame) <= self.largest and line not in self.lines and self.seen[key, version, direction] < self.most:
            self.seen[key, version, direction] += 1
            self.lines[line] = None


class Exchange:
    """One connection of the client, and the proxy's own to the broker for it."""

    def __init__(self, capture: Capture, broker: tuple[str, int]) -> None:
        self.capture = capture
        self.broker = broker
        self.waiting: dict[int, tuple[int, int]] = {}

    async def serve(self, from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        from_broker, to_broker = await asyncio.open_connection(*self.broker)
        both = [
            asyncio.ensure_future(self.pump(from_client, to_broker, self.note_request)),
            asyncio.ensure_future(self.pump(from_broker, to_client, self.note_response)),
        ]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        for task in both:
            task.cancel()
        to_broker.close()
        to_client.close()

    async def pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter, note: Note) -> None:
        """Note whole frames and pass them on."""
        try:
            while True:
                size = await source.readexactly(4)
                frame = await source.readexactly(int.from_bytes(size, "big"))
                note(frame)
                target.write(size + frame)
                await target.drain()
        except (asyncio.IncompleteReadError, OSError):
            return

    def note_request(self, frame: bytes) -> None:
        key, version = int.from_bytes(frame[:2], "big"), int.from_bytes(frame[2:4], "big")
        self.waiting[int.from_bytes(frame[4:8], "big")] = key, version
        self.capture.keep(key, version, "request", frame)

    def note_response(self, frame: bytes) -> None:
        key, version = self.waiting.pop(int.from_bytes(frame[:4], "big"))
        self.capture.keep(key, version, "response", frame)


Note = collections.abc.Callable[[bytes], None]


async def run(arguments: argparse.Namespace, capture: Capture) -> int:
    """Run the command with the proxy open; return its status."""
    host, _, port = arguments.broker.rpartition(":")
    server = await asyncio.start_server(
        lambda reader, writer: Exchange(capture, (host, int(port))).serve(reader, writer), "127.0.0.1", arguments.listen
    )
    process = await asyncio.create_subprocess_exec(*arguments.command)
    status = await process.wait()
    server.close()
    return status


def main() -> int:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--broker", required=True, help="HOST:PORT of the broker itself")
    parser.add_argument("--listen", required=True, type=int, help="port of the proxy on 127.0.0.1")
    parser.add_argument("--client", required=True, help="name for the lines, without blanks")
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--most", type=int, default=2, help="frames kept of a key, version and direction")
    parser.add_argument("--largest", type=int, default=10_000, help="bytes of the largest frame kept")
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    capture = Capture(arguments.client, arguments.most, arguments.largest)
    status = asyncio.run(run(arguments, capture))
    arguments.out.write_text("".join(f"{line}\n" for line in sorted(capture.lines, key=order)))
    print(f"{len(capture.lines)} frames of {len({each[:2] for each in capture.seen})} APIs and versions")
    return status


def order(line: str) -> tuple[str, int, int, str]:
    client, key, version, direction, _ = line.split(" ")
    return client, int(key), int(version), direction


if __name__ == "__main__":
    sys.exit(main())
