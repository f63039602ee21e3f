"""The experiment of Kafka's first paper beside today's queues: batches of 1 and 50, 200 bytes, one client.

Only where their servers are at hand. "Batch" means here, for all: so many messages are sent, and all of their
acknowledgements awaited, before the next. Clients are each server's own in Python; theirs are written in it, ours is
librdkafka. So rates compare pairs of client and server, and the processor time of the broker compares servers.
"""

from __future__ import annotations

import subprocess
import sys
from functools import partial

from bench.brokers import ROOT
from bench.lines import Figure, Figures, Line
from bench.queues import at_hand
from bench.rig import Rig

OTHERS = {"nats": "NATS JetStream", "rabbitmq": "RabbitMQ", "activemq": "ActiveMQ"}
SHAPES = ((1, 4_000), (50, 40_000))
CLIENT_SECONDS = 300


def measure(rig: Rig, contestant: str, *, batch: int, messages: int) -> Figures:
    """One run: all messages are sent, then all are read."""
    messages = rig.sized(messages) // batch * batch
    broker = rig.broker(contestant)
    name = rig.fresh_name()
    words = [contestant, str(broker.port), name, str(messages), str(batch)]
    client = subprocess.Popen(
        [sys.executable, "-m", "bench.queue_client", *words],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert client.stdout is not None
    before = broker.cpu_seconds()
    produced = client.stdout.readline()
    between = broker.cpu_seconds()
    try:
        rest, output = client.communicate("\n", timeout=CLIENT_SECONDS)
    except subprocess.TimeoutExpired:
        client.kill()
        raise
    if client.returncode:
        raise RuntimeError(f"the client of {contestant} failed: {output.strip()[-500:]}")
    after = broker.cpu_seconds()
    return {
        "produced_per_second": messages / float(produced),
        "consumed_per_second": messages / float(rest),
        "produce_cpu_per_million": (between - before) / messages * 1e6,
        "consume_cpu_per_million": (after - between) / messages * 1e6,
    }


def line(other: str, title: str, batch: int, messages: int) -> Line:
    run = partial(measure, batch=batch, messages=messages)
    beside = f"{batch} a batch, beside {title}"
    return Line(
        f"queues-{other}-{batch}",
        (
            Figure("produced_per_second", f"send, {beside}", "messages/s"),
            Figure("produce_cpu_per_million", "  broker CPU per million", "s", more_is_better=False),
            Figure("consumed_per_second", f"read, {beside}", "messages/s"),
            Figure("consume_cpu_per_million", "  broker CPU per million", "s", more_is_better=False),
        ),
        run,
        warm=lambda rig, contestant: run(rig, contestant) and None,
        finish=lambda rig: rig.stop(*OTHERS),
        contestants=("ottla", other),
        rounds=3,
        order=48,
    )


LINES = [line(other, OTHERS[other], *shape) for other in at_hand() for shape in SHAPES]
