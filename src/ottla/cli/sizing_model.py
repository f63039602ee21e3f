"""Computes the brokers that a load needs from the measured costs of one. Pure; `ottla sizing` (sizing.py) shows them.

The costs are those of docs/reference/performance.md, as processor time of brokers: one broker uses one core. They hold
for that machine; `python -m bench.several_brokers` measures another.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

DAY_S = 86_400
_MEASURED_BYTES = 200
"""The size of the records that were measured."""

PRODUCED_US = ((1, 9.7), (50, 0.462), (5000, 0.136))
"""Microseconds of a broker for a record that is produced with acks=all, by the records in a batch."""
FOLLOWED_US = ((50, 0.614), (5000, 0.411))
"""The same for each further replica: half of what three brokers took beyond one, as both their followers work."""
CONSUMED_US = 0.062
"""The same for a record that one consumer reads."""


@dataclass(frozen=True, slots=True)
class Offered:
    """A load, and what the machines have."""

    messages_per_day: int
    message_bytes: int
    peak_per_s: Fraction
    """Messages written in the busiest second."""
    readers: Fraction
    """The number of times that each message is read."""
    batch_records: int
    replicas: int
    retention_s: int
    compression: Fraction
    """The bytes of messages in a byte of a batch."""
    busy: Fraction
    """The part of a core that a broker may use at the peak."""
    disk_bytes: int | None = None
    """The space of one broker; None if the disk is to set no limit. As with the link."""
    link_bits_per_s: int | None = None


@dataclass(frozen=True, slots=True)
class Needed:
    """The answer; rates are those of the peak, over all brokers."""

    written_per_s: Fraction
    read_per_s: Fraction
    cores: float
    """Cores that all brokers together keep busy."""
    in_bytes_per_s: int
    """From producers and from leaders."""
    out_bytes_per_s: int
    """To consumers and to followers."""
    disk_bytes: int
    """All replicas, for the whole retention."""
    wants: dict[str, int]
    """The brokers that each limit asks for, by its name."""

    @property
    def brokers(self) -> int:
        return max(self.wants.values())

    @property
    def decided_by(self) -> str:
        """The limit that asks for most brokers."""
        return max(self.wants, key=lambda name: self.wants[name])


def needed(load: Offered) -> Needed:
    """The brokers for a load, by each limit."""
    written, read = load.peak_per_s, load.peak_per_s * load.readers
    stored = Fraction(load.message_bytes) / load.compression
    further = load.replicas - 1
    # Bytes cost what those of the measured records cost; smaller records are not taken to be cheaper.
    sized = max(float(stored) / _MEASURED_BYTES, 1.0)
    write_us = _at(PRODUCED_US, load.batch_records, sized) + further * _at(FOLLOWED_US, load.batch_records, sized)
    cores = (float(written) * write_us + float(read) * CONSUMED_US * sized) / 1e6
    incoming = math.ceil(written * stored * load.replicas)
    outgoing = math.ceil((read + written * further) * stored)
    disk = math.ceil(Fraction(load.messages_per_day * load.retention_s, DAY_S) * stored * load.replicas)
    wants = {"processor": math.ceil(cores / float(load.busy)) or 1, "replicas": load.replicas}
    if load.disk_bytes is not None:
        wants["disk"] = math.ceil(Fraction(disk, load.disk_bytes)) or 1
    if load.link_bits_per_s is not None:
        share = Fraction(load.link_bits_per_s, 8) * load.busy
        wants["network"] = math.ceil(Fraction(max(incoming, outgoing)) / share) or 1
    return Needed(written, read, cores, incoming, outgoing, disk, wants)


def _at(measured: tuple[tuple[int, float], ...], records: int, sized: float) -> float:
    """The cost of a record in a batch of so many, on the line between the two measured points around it.

    It is a line over 1/records: a batch costs a part, and its records the rest. Only that rest grows with the bytes.
    """
    share = 1 / records
    points = [(1 / batch, cost) for batch, cost in reversed(measured)]
    near, far = points[0], points[1]
    for low, high in pairwise(points):
        if share > low[0]:
            near, far = low, high
    slope = (far[1] - near[1]) / (far[0] - near[0])
    cost = near[1] + slope * (max(share, points[0][0]) - near[0])
    return cost + points[0][1] * (sized - 1)
