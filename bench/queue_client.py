"""One client of the lines beside other queues: `python -m bench.queue_client SERVER PORT NAME MESSAGES BATCH`.

It sends messages of 200 bytes, and reads them. A batch is sent, and all its acknowledgements are awaited before the
next. Prints a line after each half, with its seconds; between them it waits for a line on standard input.
"""

from __future__ import annotations

import asyncio
import queue
import sys
import time
from collections.abc import Callable
from typing import Any

from bench.queues import PROGRAMS

VALUE = b"x" * 200
TIMEOUT_S = 60.0


def ottla(port: int, name: str, messages: int, batch: int, halfway: Callable[[], None]) -> None:
    """librdkafka with acks=all, one request a batch; a consumer commits after each batch that it has read."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

    at = {"bootstrap.servers": f"127.0.0.1:{port}"}
    refused: list[object] = []
    producer = Producer({**at, "acks": "all", "batch.num.messages": batch, "linger.ms": 5 if batch > 1 else 0})
    producer.list_topics(name, timeout=TIMEOUT_S)
    for _ in range(messages // batch):
        for _ in range(batch):
            producer.produce(name, VALUE, partition=0, on_delivery=lambda error, _: error and refused.append(error))
        if producer.flush(TIMEOUT_S) or refused:
            raise RuntimeError(f"not all messages were acknowledged: {refused[:1]}")
    halfway()
    consumer = Consumer({**at, "group.id": name, "enable.auto.commit": False})
    consumer.assign([TopicPartition(name, 0, OFFSET_BEGINNING)])  # to join a group takes seconds, and no processor
    seen = 0
    while seen < messages:
        read = consumer.consume(batch, TIMEOUT_S)
        if not read or any(message.error() for message in read):
            raise RuntimeError(f"{seen} of {messages} messages were read")
        seen += len(read)
        consumer.commit(asynchronous=True)
    consumer.close()


def nats(port: int, name: str, messages: int, batch: int, halfway: Callable[[], None]) -> None:
    """nats-py: a stream in files; a durable consumer that pulls a batch and acknowledges each message."""
    import nats as library  # type: ignore[import-not-found]

    async def story() -> None:
        connection = await library.connect(f"nats://127.0.0.1:{port}")
        stream = connection.jetstream()
        await stream.add_stream(name=name, subjects=[name])
        for _ in range(messages // batch):
            await asyncio.gather(*(stream.publish(name, VALUE, timeout=TIMEOUT_S) for _ in range(batch)))
        halfway()
        reader = await stream.pull_subscribe(name, durable=name)
        seen = 0
        while seen < messages:
            read = await reader.fetch(min(batch, messages - seen), timeout=TIMEOUT_S)
            seen += len(read)
            for message in read:
                await message.ack()
        await connection.flush()
        await connection.close()

    asyncio.run(story())


def rabbitmq(port: int, name: str, messages: int, batch: int, halfway: Callable[[], None]) -> None:
    """pika: a durable queue, persistent messages and confirms; the last message of a batch acknowledges all of it."""
    import pika  # type: ignore[import-not-found]

    at = pika.ConnectionParameters("127.0.0.1", port)
    connection = pika.BlockingConnection(at)
    channel = connection.channel()
    channel.queue_declare(name, durable=True)
    RabbitSender(at, name, messages // batch, batch).run()
    halfway()
    channel.basic_qos(prefetch_count=2 * batch)
    for seen, (method, _, _) in enumerate(channel.consume(name, inactivity_timeout=TIMEOUT_S), 1):
        if method is None:
            raise RuntimeError(f"{seen - 1} of {messages} messages were read")
        if seen % batch == 0:
            channel.basic_ack(method.delivery_tag, multiple=True)
        if seen == messages:
            break
    connection.close()


class RabbitSender:
    """Sends a batch, waits for its confirms, sends the next; pika's blocking channel would wait for each message."""

    def __init__(self, at: Any, name: str, batches: int, batch: int) -> None:
        import pika

        self._name, self._batch, self._left = name, batch, batches
        self._sent = self._confirmed = 0
        self._persistent = pika.BasicProperties(delivery_mode=2)
        self._channel: Any = None
        self._fault = ""
        self._connection = pika.SelectConnection(
            at,
            on_open_callback=lambda connection: connection.channel(on_open_callback=self._opened),
            on_open_error_callback=lambda _, fault: self._end(f"no connection: {fault}"),
        )

    def run(self) -> None:
        """Return once all is confirmed; RuntimeError if the server refuses a message or the connection."""
        self._connection.ioloop.start()
        if self._fault:
            raise RuntimeError(self._fault)

    def _opened(self, channel: Any) -> None:
        self._channel = channel
        channel.confirm_delivery(self._on_confirm, callback=lambda _: self._next())

    def _next(self) -> None:
        if self._left == 0:
            self._end("")
            return
        self._left -= 1
        for _ in range(self._batch):
            self._channel.basic_publish("", self._name, VALUE, self._persistent)
        self._sent += self._batch

    def _on_confirm(self, frame: Any) -> None:
        if frame.method.NAME != "Basic.Ack":
            self._end("a message was refused")
            return
        several = frame.method.multiple
        self._confirmed = frame.method.delivery_tag if several else self._confirmed + 1
        if self._confirmed == self._sent:
            self._next()

    def _end(self, fault: str) -> None:
        self._fault = fault
        self._connection.ioloop.stop()


def activemq(port: int, name: str, messages: int, batch: int, halfway: Callable[[], None]) -> None:
    """stomp.py: persistent messages, a receipt for the last of a batch; the last read acknowledges a batch."""
    import stomp  # type: ignore[import-not-found]

    told: queue.SimpleQueue[str] = queue.SimpleQueue()

    class Listener(stomp.ConnectionListener):  # type: ignore[misc]
        def on_receipt(self, frame: Any) -> None:
            told.put(frame.headers["receipt-id"])

        def on_message(self, frame: Any) -> None:
            told.put(frame.headers["ack"])

        def on_error(self, frame: Any) -> None:
            told.put(f"error: {frame.body}")

    def heard() -> str:
        line = told.get(timeout=TIMEOUT_S)
        if line.startswith("error: "):
            raise RuntimeError(line)
        return line

    connection = stomp.Connection12([("127.0.0.1", port)])
    connection.set_listener("", Listener())
    connection.connect(wait=True)
    place = f"/queue/{name}"
    for sent in range(messages // batch):
        for _ in range(batch - 1):
            connection.send(place, VALUE, persistent="true")
        connection.send(place, VALUE, persistent="true", receipt=str(sent))
        heard()
    halfway()
    connection.subscribe(place, id="1", ack="client", headers={"activemq.prefetchSize": 2 * batch})
    for seen in range(1, messages + 1):
        identity = heard()
        if seen % batch == 0:
            connection.ack(identity)
    connection.disconnect()


def main() -> int:
    server, port, name, messages, batch = sys.argv[1:]
    sys.path.append(str(PROGRAMS / "python"))
    began = time.monotonic()

    def halfway() -> None:
        nonlocal began
        print(time.monotonic() - began, flush=True)
        sys.stdin.readline()
        began = time.monotonic()

    run = {"ottla": ottla, "nats": nats, "rabbitmq": rabbitmq, "activemq": activemq}[server]
    run(int(port), name, int(messages), int(batch), halfway)
    print(time.monotonic() - began, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
