"""Cables between one broker and each server of an ensemble, which a test can cut, freeze, or make deaf."""

from __future__ import annotations

import contextlib
import socket
import threading
from functools import partial


class Cable:
    """A listening port that leads to another one."""

    def __init__(self, target: int) -> None:
        self.target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._changed = threading.Condition()
        self._holds_requests = self._holds_answers = self._refuses = False
        self._held_bytes: list[bytes] = []
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def in_use(self) -> bool:
        with self._changed:
            return bool(self._open)

    def holds(self, part: bytes) -> bool:
        """True if bytes that wait here contain `part`."""
        with self._changed:
            return any(part in held for held in self._held_bytes)

    def hold(self, *, requests: bool, answers: bool) -> None:
        """Begin or end holding back bytes; neither side is told."""
        with self._changed:
            self._holds_requests, self._holds_answers = requests, answers
            self._changed.notify_all()

    def cut(self) -> None:
        """Drop the connections with all that is held; until `mend` new ones are refused."""
        with self._changed:
            self._refuses = True
            self._drop()

    def mend(self) -> None:
        with self._changed:
            self._refuses = self._holds_requests = self._holds_answers = False
            self._changed.notify_all()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _drop(self) -> None:
        for end in self._open:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self._open.clear()
        self._changed.notify_all()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                with self._changed:
                    if self._refuses:
                        near.close()
                        continue
                with contextlib.suppress(OSError):
                    far = socket.create_connection(("127.0.0.1", self.target))
                    with self._changed:
                        self._open += [near, far]
                    for source, sink in ((near, far), (far, near)):
                        pump = partial(self._pump, source, sink, requests=source is near)
                        threading.Thread(target=pump, daemon=True).start()
                    continue
                near.close()

    def _pump(self, source: socket.socket, sink: socket.socket, *, requests: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                with self._changed:
                    self._held_bytes.append(data)
                    self._changed.wait_for(lambda: source not in self._open or not self._held(requests=requests))
                    self._held_bytes.remove(data)
                    if source not in self._open:
                        break
                sink.sendall(data)
        with self._changed:
            self._open = [end for end in self._open if end not in (source, sink)]
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _held(self, *, requests: bool) -> bool:
        return self._holds_requests if requests else self._holds_answers


class Cables:
    """One broker's cables to all servers."""

    def __init__(self, ports: dict[int, int]) -> None:
        self.to = {number: Cable(port) for number, port in ports.items()}

    @property
    def hosts(self) -> str:
        return ",".join(f"127.0.0.1:{cable.port}" for cable in self.to.values())

    def holds(self, part: bytes) -> bool:
        return any(cable.holds(part) for cable in self.to.values())

    def hold(self, *, requests: bool, answers: bool) -> None:
        for cable in self.to.values():
            cable.hold(requests=requests, answers=answers)

    def cut(self) -> None:
        for cable in self.to.values():
            cable.cut()

    def mend(self) -> None:
        for cable in self.to.values():
            cable.mend()

    def close(self) -> None:
        for cable in self.to.values():
            cable.close()
