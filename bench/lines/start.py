"""The time from the command to the first Metadata answer in an empty folder, and the memory at that moment."""

from __future__ import annotations

from bench.lines import Figure, Figures, Line
from bench.rig import Rig


def measure(rig: Rig, contestant: str) -> Figures:
    """Start a broker once. Kafka's storage is formatted before, which is not timed."""
    broker = rig.fresh_broker(contestant)
    try:
        seconds = broker.start()
        return {
            "seconds": seconds,
            "resident_mb": broker.resident_mb(),
            "broker_cpu_seconds": broker.cpu_seconds(),
        }
    finally:
        broker.stop()


LINES = [
    Line(
        "start",
        (
            Figure("seconds", "start to ready", "s", more_is_better=False),
            Figure("resident_mb", "memory when ready", "MB", more_is_better=False),
            Figure("broker_cpu_seconds", "CPU to be ready", "s", more_is_better=False),
        ),
        measure,
        order=10,
    )
]
