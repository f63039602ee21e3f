"""A handler of Python's `logging` that sends log records to a topic. It never holds up the program that logs.

import logging
from ottla.logging import KafkaHandler

logging.getLogger().addHandler(KafkaHandler("localhost:9092", "logs"))
"""

from __future__ import annotations

import json
import logging
import os
import platform
import secrets
import sys
import threading
import time
import weakref
from collections import deque
from typing import Any

from ottla.client.blocking.producer import Producer
from ottla.client.errors import ClientError, may_retry
from ottla.client.produce.accumulator import Delivered
from ottla.client.produce.producing import settings_from
from ottla.kernel.errors import ApiError

_OURS = ("ottla.client", "ottla.kernel")
_PAUSE_S = 0.5
_handlers: weakref.WeakSet[KafkaHandler] = weakref.WeakSet()


class KafkaHandler(logging.Handler):
    """Sends log records as JSON, or as the text of a formatter that was set.

    A thread of its own sends. At most `capacity` records wait for Kafka; those beyond are dropped and counted. Each
    record has its number within its `sender`, dropped ones included: a gap among the numbers of a sender shows what is
    missing. Records of ottla's own client are left out, since they would follow from each other without end.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        *,
        capacity: int = 10_000,
        flush_seconds: float = 5.0,
        level: int | str = logging.NOTSET,
        **options: Any,
    ) -> None:
        """`flush_seconds` is how long `flush`, and the end of the program, wait for Kafka.

        `options` are settings of the producer, such as `compression`. ValueError and TypeError for wrong ones.
        """
        super().__init__(level)
        if capacity < 1:
            raise ValueError(f"capacity is at least 1, not {capacity}")
        settings_from(None, None, options)
        self.delivered = 0
        """Records that are in Kafka."""
        self.dropped = 0
        """Records that are not and never will be: there was no room, or Kafka refused them."""
        self._bootstrap, self._topic, self._options = bootstrap, topic, options
        self._capacity, self._flush_seconds = capacity, flush_seconds
        self._host = platform.node()
        self._begin()
        _handlers.add(self)

    def _begin(self) -> None:
        """Begin as a new sender: at first, and in the child of a fork, which has no thread."""
        self.sender = f"{self._host}-{os.getpid()}-{secrets.token_hex(4)}"
        self._waiting: deque[tuple[bytes, int]] = deque()
        self._changed = threading.Condition()
        self._open = self._number = 0
        self._closing = self._late = False
        self._thread: threading.Thread | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Take a record, or count it as dropped. Returns at once."""
        if record.name.startswith(_OURS):
            return
        try:
            with self._changed:
                self._number += 1
                number = self._number
                if self._open >= self._capacity or self._closing:
                    self.dropped += 1
                    return
                self._open += 1
            self._put(record, number)
        except Exception:
            self.handleError(record)

    def _put(self, record: logging.LogRecord, number: int) -> None:
        try:
            value = self._value(record, number)
        except Exception:
            self._settle(delivered=False)
            raise
        with self._changed:
            self._waiting.append((value, int(record.created * 1000)))
            if self._thread is None:
                self._thread = threading.Thread(target=self._send, name="ottla-logging", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def flush(self) -> None:
        """Wait until all is in Kafka, `flush_seconds` at most."""
        with self._changed:
            self._late = not self._changed.wait_for(lambda: not self._open, self._flush_seconds)

    def close(self) -> None:
        """Flush and end; a line on standard error says how many records are lost."""
        with self._changed:
            again, self._closing = self._closing, True
            self._changed.notify_all()
        if not again:
            if not self._late:
                self.flush()
            lost = self.dropped + self._open
            if lost:
                sys.stderr.write(f"ottla: {lost} log records are not in the topic {self._topic}\n")
        super().close()

    def _value(self, record: logging.LogRecord, number: int) -> bytes:
        if self.formatter is not None:
            return self.format(record).encode("utf-8", "replace")
        made: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03}Z",
            "level": record.levelname, "logger": record.name, "message": record.getMessage(), "host": self._host,
            "process": record.process, "thread": record.threadName, "file": record.pathname, "line": record.lineno,
            "sender": self.sender, "number": number,
        }  # fmt: skip
        if record.exc_info and record.exc_info[0] is not None:
            made["exception"] = logging.Formatter().formatException(record.exc_info)
        return json.dumps(made, ensure_ascii=False).encode("utf-8", "replace")

    def _send(self) -> None:
        """The thread: hands records to a producer, again where it may succeed later."""
        producer = Producer(self._bootstrap, **self._options)
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or (self._closing and not self._open))
                if not self._waiting:
                    break
                value, at = self._waiting.popleft()
            self._produce(producer, value, at)
        producer.close()

    def _produce(self, producer: Producer, value: bytes, at: int) -> None:
        while True:
            try:
                producer.produce(self._topic, value, self._host, timestamp=at, on_delivery=self._told)
                return
            except (ApiError, ClientError, OSError) as fault:
                if not may_retry(fault) and not isinstance(fault, OSError):
                    self._settle(delivered=False)
                    return
                time.sleep(_PAUSE_S)  # the topic or the brokers are not there yet

    def _told(self, outcome: Delivered | Exception) -> None:
        self._settle(delivered=not isinstance(outcome, Exception))

    def _settle(self, *, delivered: bool) -> None:
        with self._changed:
            self._open -= 1
            self.delivered += delivered
            self.dropped += not delivered
            self._changed.notify_all()


def _begin_in_child() -> None:
    for handler in _handlers:
        handler._begin()


os.register_at_fork(after_in_child=_begin_in_child)
