"""Metrics of the process: its connections, syncs, loop, processor time, memory and files.

They are gathered on a scrape, beside those of broker/measures.py. Names with `process_` are those of Prometheus' own
clients.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Iterable, Iterator, Mapping

from ottla.metrics.metric import Metric, Sample
from ottla.server.listener import Listener
from ottla.server.loop_delay import LoopDelay
from ottla.server.sync_loop import SyncLoop

_LISTENER = ("listener",)
CONNECTIONS = Metric(
    "kafka_server_socket_server_metrics_connection_count", "gauge", "Connections open.", _LISTENER
)  # fmt: skip
ACCEPTED = Metric("ottla_connections_accepted_total", "counter", "Connections accepted.", _LISTENER)
REFUSED = Metric(
    "ottla_connections_refused_total", "counter", "Connections closed at once by a limit.", ("listener", "limit")
)
DELAYED = Metric(
    "ottla_connections_delayed_seconds_total",
    "counter",
    "Seconds for which nothing was accepted, as connections came above max.connection.creation.rate.",
    _LISTENER,
)
SYNC_TIMES = Metric(
    "ottla_sync_seconds",
    "histogram",
    "Time of a sync to disk, which is of all logs of a directory that are dirty when it begins.",
    ("logdirectory",),
)
QUEUE_TIMES = Metric(
    "ottla_queue_seconds",
    "histogram",
    "Time that a request waits for the loop before it is decoded: by how much a timer came late, ten times a second.",
)
CPU = Metric("process_cpu_seconds_total", "counter", "Processor time used, of user and system.")
RESIDENT = Metric("process_resident_memory_bytes", "gauge", "Memory resident.")
OPEN_FILES = Metric("process_open_fds", "gauge", "File descriptors open.")
MOST_FILES = Metric("process_max_fds", "gauge", "File descriptors that may be open.")
STARTED = Metric("process_start_time_seconds", "gauge", "When this process began, in seconds since 1970.")
_BEGAN_S = time.time()


def families() -> list[Metric]:
    """Every metric of the process, for the reference."""
    return [value for value in globals().values() if isinstance(value, Metric)]


def gather_process(
    listeners: Iterable[Listener], sync_loops: Mapping[str, SyncLoop], loop_delay: LoopDelay
) -> Iterator[Sample]:
    """Everything, as of now."""
    for listener in listeners:
        yield Sample(CONNECTIONS, (listener.name,), len(listener.channels))
        yield Sample(ACCEPTED, (listener.name,), listener.accepted)
        yield Sample(DELAYED, (listener.name,), listener.limits.delayed_ms[listener.name] / 1000)
        for (name, which), count in sorted(listener.limits.refused.items()):
            if name == listener.name:
                yield Sample(REFUSED, (name, which), count)
    for directory, sync_loop in sync_loops.items():
        yield from sync_loop.times.samples(SYNC_TIMES, (directory,))
    yield from loop_delay.times.samples(QUEUE_TIMES, ())
    used = resource.getrusage(resource.RUSAGE_SELF)
    yield Sample(CPU, (), used.ru_utime + used.ru_stime)
    yield Sample(RESIDENT, (), _resident_bytes(used))
    yield Sample(STARTED, (), _BEGAN_S)
    yield Sample(OPEN_FILES, (), len(os.listdir("/dev/fd")) - 1)  # reading the list takes one of them
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield Sample(MOST_FILES, (), float("inf") if limit == resource.RLIM_INFINITY else limit)


def _resident_bytes(used: resource.struct_rusage) -> int:
    """The resident memory now, on Linux; elsewhere its peak, as the system does not tell the present one."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except FileNotFoundError:
        return used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
