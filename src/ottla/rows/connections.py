"""Connections to the cluster, kept per process: Spark forks its workers, and reuses them for many tasks (rule G5)."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass

from ottla.client.blocking.cluster import Cluster
from ottla.client.model import ClientSettings
from ottla.client.security import Security
from ottla.rows.kafka_settings import KafkaSettings

IDLE_SECONDS = 60.0
_FIRST_ANSWER_MS = 4_000
"""For this long brokers that refuse, or that no connection reaches, are tried before a batch fails.

An address that takes no connection may add one connection's time, the same again: both leave Spark time to start its
worker and fail within ten seconds. Linux repeats a lost first packet after one and after three seconds, so that two of
them may be lost. A slow broker is not cut off: once it is connected, `kafka.request.timeout.ms` is its time to answer.
"""


@dataclass(slots=True)
class _Kept:
    cluster: Cluster
    used: float


_kept: dict[tuple[int, str, str, int, Security, bool], _Kept] = {}
_guard = threading.Lock()


def client_settings(kafka: KafkaSettings, *, patient: bool = False) -> ClientSettings:
    return ClientSettings(
        client_id=kafka.client_id,
        request_timeout_ms=kafka.request_timeout_ms,
        connect_timeout_ms=_FIRST_ANSWER_MS,
        security=kafka.security,
        bootstrap_timeout_ms=ClientSettings().api_timeout_ms if patient else _FIRST_ANSWER_MS,
    )


def cluster(kafka: KafkaSettings, *, patient: bool = False) -> Cluster:
    """This process's cluster for these settings; others that were idle for a minute are closed.

    `patient` is for tasks of a query whose brokers have answered before, perhaps to another process: if they do not
    now, they are restarting, and are waited for as long as by a process that knows them.
    """
    now = time.monotonic()
    mine = (os.getpid(), kafka.bootstrap_servers, kafka.client_id, kafka.request_timeout_ms, kafka.security, patient)
    with _guard:
        for key, kept in list(_kept.items()):
            if key[0] != mine[0]:
                del _kept[key]
            elif key != mine and now - kept.used > IDLE_SECONDS:
                kept.cluster.close()
                del _kept[key]
        found = _kept.get(mine)
        if found is None:
            settings = client_settings(kafka, patient=patient)
            found = _kept[mine] = _Kept(Cluster(kafka.bootstrap_servers, settings=settings), now)
        found.used = now
        return found.cluster
