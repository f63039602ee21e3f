"""A server that does as little as a broker can: what any broker has to reckon with on this machine, with this client.

It speaks the few requests of `bench/driver.c`, in their old versions. It receives a batch, gives it an offset, appends
it to a file and answers; it hands a consumer whole batches out of that file with `sendfile`. At acks=all it answers
after `fdatasync`, which a thread of its own calls for all batches that wait. It checks nothing, knows no producer, no
replica and no group, and forgets everything when it ends. One thread serves each connection, so that nothing stands
between the socket and the file.

`python -m bench.bare --port PORT --data FOLDER`
"""

from __future__ import annotations

import argparse
import bisect
import contextlib
import os
import queue
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

PRODUCE, FETCH, LIST_OFFSETS, METADATA, API_VERSIONS, CREATE_TOPICS, DELETE_TOPICS = 0, 1, 2, 3, 18, 19, 20
VERSIONS = {PRODUCE: 3, FETCH: 4, LIST_OFFSETS: 1, METADATA: 1, API_VERSIONS: 0, CREATE_TOPICS: 2, DELETE_TOPICS: 1}
"""Each has the one version that it has here: the oldest with batches of format 2, or with what a client asks for."""
UNKNOWN_TOPIC, UNSUPPORTED_VERSION = 3, 35
BUFFER_BYTES = 2 << 20
"""More than one request has: batches of the race have a megabyte."""
LAST_OFFSET_DELTA_AT = 23
EARLIEST = -2


@dataclass
class Partition:
    """One file, and where each batch begins in it."""

    file: int
    bases: list[int] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    next_offset: int = 0
    size: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def append(self, batch: memoryview) -> int:
        """Write one batch at the end; return its offset."""
        with self.lock:
            base = self.next_offset
            struct.pack_into(">q", batch, 0, base)
            written = os.write(self.file, batch)
            if written != len(batch):
                raise OSError("the disk has no room")
            self.bases.append(base)
            self.places.append(self.size)
            self.size += written
            self.next_offset = base + 1 + int(struct.unpack_from(">i", batch, LAST_OFFSET_DELTA_AT)[0])
            return base

    def found(self, offset: int, most_bytes: int) -> tuple[int, int]:
        """The place and the bytes of whole batches from the one with this offset on: as many as fit, at least one."""
        with self.lock:
            if offset >= self.next_offset:
                return self.size, 0
            place = self.places[bisect.bisect_right(self.bases, offset) - 1]
            if place + most_bytes >= self.size:
                return place, self.size - place
            end = self.places[bisect.bisect_right(self.places, place + most_bytes) - 1]
            if end == place:
                end = self.places[bisect.bisect_right(self.places, place)]
            return place, end - place


class Fields:
    """Reads the numbers and strings of a request in their order."""

    def __init__(self, body: memoryview) -> None:
        self.body = body
        self.at = 0

    def number(self, form: str) -> int:
        (value,) = struct.unpack_from(">" + form, self.body, self.at)
        self.at += struct.calcsize(">" + form)
        return int(value)

    def text(self) -> str:
        return bytes(self.part(max(self.number("h"), 0))).decode()

    def part(self, size: int) -> memoryview:
        self.at += size
        return self.body[self.at - size : self.at]

    def repeated(self) -> Iterator[int]:
        """Once for each entry of an array."""
        return iter(range(max(self.number("i"), 0)))


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def listed(entries: list[bytes]) -> bytes:
    return struct.pack(">i", len(entries)) + b"".join(entries)


class Piece(NamedTuple):
    """Some bytes of a file that are sent as they are."""

    partition: Partition
    place: int
    size: int


class Server:
    """All topics, and what is said of them."""

    def __init__(self, port: int, folder: Path) -> None:
        self._port = port
        self._folder = folder
        self._topics: dict[str, list[Partition]] = {}
        self._appended = threading.Condition()
        self._made = 0
        self.answers: dict[int, Callable[[Fields], bytes]] = {
            API_VERSIONS: self._api_versions,
            METADATA: self._metadata,
            LIST_OFFSETS: self._list_offsets,
            CREATE_TOPICS: self._create_topics,
            DELETE_TOPICS: self._delete_topics,
        }

    def _api_versions(self, request: Fields) -> bytes:
        return struct.pack(">h", 0) + listed([struct.pack(">hhh", key, at, at) for key, at in VERSIONS.items()])

    def _metadata(self, request: Fields) -> bytes:
        count = request.number("i")
        names = [request.text() for _ in range(count)] if count >= 0 else list(self._topics)
        brokers = listed([struct.pack(">i", 1) + text("127.0.0.1") + struct.pack(">ih", self._port, -1)])
        return brokers + struct.pack(">i", 1) + listed([self._described(name) for name in names])

    def _described(self, name: str) -> bytes:
        partitions = self._topics.get(name, [])
        replicas = listed([struct.pack(">i", 1)]) * 2
        known = [struct.pack(">hii", 0, index, 1) + replicas for index in range(len(partitions))]
        error = 0 if partitions else UNKNOWN_TOPIC
        return struct.pack(">h", error) + text(name) + b"\0" + listed(known)

    def _list_offsets(self, request: Fields) -> bytes:
        request.number("i")
        topics: list[bytes] = []
        for _ in request.repeated():
            name, found = request.text(), []
            for _ in request.repeated():
                index, moment = request.number("i"), request.number("q")
                offset = 0 if moment == EARLIEST else self._topics[name][index].next_offset
                found.append(struct.pack(">ihqq", index, 0, -1, offset))
            topics.append(text(name) + listed(found))
        return listed(topics)

    def _create_topics(self, request: Fields) -> bytes:
        made: list[bytes] = []
        for _ in request.repeated():
            name, partitions, _ = request.text(), request.number("i"), request.number("h")
            for _ in request.repeated():
                request.number("i")
                request.part(4 * request.number("i"))
            for _ in request.repeated():
                request.text(), request.text()
            self._topics[name] = [self._new_partition() for _ in range(partitions)]
            made.append(text(name) + struct.pack(">hh", 0, -1))
        return struct.pack(">i", 0) + listed(made)

    def _new_partition(self) -> Partition:
        self._made += 1
        path = self._folder / f"{self._made}.log"
        return Partition(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND))

    def _delete_topics(self, request: Fields) -> bytes:
        names = [request.text() for _ in request.repeated()]
        for name in names:
            for partition in self._topics.pop(name, []):
                os.unlink(os.readlink(f"/proc/self/fd/{partition.file}"))
                os.close(partition.file)
        return struct.pack(">i", 0) + listed([text(name) + struct.pack(">h", 0) for name in names])

    def produce(self, request: Fields) -> tuple[int, bytes, list[Partition]]:
        """Append all batches; return the acks that were asked for, the answer, and where something was written."""
        request.text()
        acks, _ = request.number("h"), request.number("i")
        topics: list[bytes] = []
        written: list[Partition] = []
        for _ in request.repeated():
            name, found = request.text(), []
            for _ in request.repeated():
                index = request.number("i")
                partition = self._topics[name][index]
                base = partition.append(request.part(request.number("i")))
                written.append(partition)
                found.append(struct.pack(">ihqq", index, 0, base, -1))
            topics.append(text(name) + listed(found))
        return acks, listed(topics) + struct.pack(">i", 0), written

    def tell(self) -> None:
        """Wake the consumers that wait for records."""
        with self._appended:
            self._appended.notify_all()

    def fetch(self, request: Fields) -> list[bytes | Piece]:
        """The answer, in parts. Waits as long as the request allows where there is nothing to read."""
        _, wait_ms, _, most_bytes, _ = (request.number(form) for form in "iiiib")
        wanted = [
            (request.text(), [tuple(request.number(form) for form in "iqi") for _ in request.repeated()])
            for _ in request.repeated()
        ]
        until = time.monotonic() + wait_ms / 1000
        with self._appended:
            while not (pieces := self._pieces(wanted, most_bytes)) and time.monotonic() < until:
                self._appended.wait(until - time.monotonic())
        parts: list[bytes | Piece] = [struct.pack(">ii", 0, len(wanted))]
        for name, partitions in wanted:
            parts.append(text(name) + struct.pack(">i", len(partitions)))
            for index, _, _ in partitions:
                end = self._topics[name][index].next_offset
                piece = pieces.get((name, index))
                parts.append(struct.pack(">ihqqii", index, 0, end, end, 0, piece.size if piece else 0))
                parts += [piece] if piece else []
        return parts

    def _pieces(self, wanted: list[tuple[str, list[tuple[int, ...]]]], most: int) -> dict[tuple[str, int], Piece]:
        found: dict[tuple[str, int], Piece] = {}
        for name, partitions in wanted:
            for index, offset, at_most in partitions:
                partition = self._topics[name][index]
                place, size = partition.found(offset, min(at_most, most))
                if size and most > 0:
                    found[name, index] = Piece(partition, place, size)
                    most -= size
        return found


class Connection:
    """One client, served by one thread; at acks=all a second one syncs and answers."""

    def __init__(self, server: Server, peer: socket.socket) -> None:
        self._server = server
        self._peer = peer
        self._buffer = memoryview(bytearray(BUFFER_BYTES))
        self._to_sync: queue.SimpleQueue[tuple[bytes, list[Partition]]] = queue.SimpleQueue()
        self._syncer: threading.Thread | None = None

    def run(self) -> None:
        """Answer requests until the client goes."""
        try:
            while self._receive(4):
                (size,) = struct.unpack_from(">i", self._buffer)
                if not self._receive(size):
                    return
                self._answer(Fields(self._buffer[:size]))
        except ConnectionError:
            return  # the client has gone; another error ends in the log, and closes the connection
        finally:
            self._peer.close()

    def _receive(self, size: int) -> bool:
        at = 0
        while at < size:
            got = self._peer.recv_into(self._buffer[at:size])
            if not got:
                return False
            at += got
        return True

    def _answer(self, request: Fields) -> None:
        key, version, correlation = request.number("h"), request.number("h"), request.number("i")
        request.text()
        if version != VERSIONS.get(key):
            body = struct.pack(">h", UNSUPPORTED_VERSION) + self._server.answers[API_VERSIONS](request)[2:]
            self._send([body], correlation)
        elif key == PRODUCE:
            self._produce(request, correlation)
        elif key == FETCH:
            self._send(self._server.fetch(request), correlation)
        else:
            self._send([self._server.answers[key](request)], correlation)

    def _produce(self, request: Fields, correlation: int) -> None:
        acks, body, written = self._server.produce(request)
        answer = framed(body, correlation)
        if acks == -1:
            self._to_sync.put((answer, written))
            if self._syncer is None:
                self._syncer = threading.Thread(target=self._sync, daemon=True)
                self._syncer.start()
        else:
            self._server.tell()
            if acks:
                self._peer.sendall(answer)

    def _sync(self) -> None:
        while True:
            waiting = [self._to_sync.get()]
            while not self._to_sync.empty():
                waiting.append(self._to_sync.get())
            try:
                for partition in {id(each): each for _, written in waiting for each in written}.values():
                    os.fdatasync(partition.file)
                self._server.tell()
                self._peer.sendall(b"".join(answer for answer, _ in waiting))
            except BaseException:
                with contextlib.suppress(OSError):
                    self._peer.shutdown(socket.SHUT_RDWR)  # so that the client does not wait for its answers
                raise

    def _send(self, parts: list[bytes | Piece], correlation: int) -> None:
        size = 4 + sum(part.size if isinstance(part, Piece) else len(part) for part in parts)
        head = struct.pack(">ii", size, correlation)
        for part in parts:
            if isinstance(part, Piece):
                self._peer.sendall(head, socket.MSG_MORE)
                self._send_file(part)
                head = b""
            else:
                head += part
        if head:
            self._peer.sendall(head)

    def _send_file(self, piece: Piece) -> None:
        place, end = piece.place, piece.place + piece.size
        while place < end:
            sent = os.sendfile(self._peer.fileno(), piece.partition.file, place, end - place)
            if not sent:
                raise ConnectionError("closed")
            place += sent


def framed(body: bytes, correlation: int) -> bytes:
    return struct.pack(">ii", 4 + len(body), correlation) + body


def main() -> None:
    """Serve until the process is stopped."""
    parser = argparse.ArgumentParser(prog="python -m bench.bare", description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--data", type=Path, required=True, help="where each partition has a file")
    options = parser.parse_args()
    options.data.mkdir(parents=True, exist_ok=True)
    server = Server(options.port, options.data)
    with socket.create_server(("127.0.0.1", options.port)) as listener:
        while True:
            peer, _ = listener.accept()
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=Connection(server, peer).run, daemon=True).start()


if __name__ == "__main__":
    main()
