"""The metrics that clients have pushed, as samples of /metrics. Pure, and bounded in clients, points and labels."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from math import isfinite

from ottla.metrics.metric import Metric, Sample
from ottla.metrics.otlp import Point

MOST_CLIENTS = 1000
MOST_POINTS = 1000
"""The most points of one client."""
MOST_POINTS_IN_ALL = 20_000
MOST_NAMES = 2000
"""The most metrics of all clients together."""
MOST_LABELS = 20
"""The most labels of a metric, of all its points together: each point is shown with all of them."""
_LONGEST = 200
_PREFIX = "kafka_client_"
_NOT_IN_NAMES = re.compile("[^a-zA-Z0-9_]")
_OF_CLIENT = ("client_instance_id", "client_id", "client_software_name", "client_address")
_Key = tuple[str, bool, tuple[tuple[str, str], ...]]


class PushedMetrics:
    """Holds the latest values of each client until `forget`."""

    def __init__(self) -> None:
        self._clients: dict[str, tuple[tuple[str, ...], dict[_Key, float]]] = {}
        self._count = 0
        self._names: Counter[str] = Counter()
        """The number of points by name."""
        self._labels: dict[str, frozenset[str]] = {}
        """The labels by name."""
        self.left_out = 0
        """Points that were pushed and are not shown: not asked for, no finite number, or above the bounds."""

    def __len__(self) -> int:
        return len(self._clients)

    def take(self, instance: str, about: tuple[str, str, str], points: Iterable[Point], asked: Iterable[str]) -> None:
        """Note what a client pushed. `about` is its id, its software and its address; `asked` are prefixes."""
        prefixes = tuple(asked)
        if instance not in self._clients and len(self._clients) >= MOST_CLIENTS:
            self.left_out += sum(1 for _ in points)
            return
        labels = (instance, *(each[:_LONGEST] for each in about))
        values = self._clients.get(instance, (labels, {}))[1]
        for point in points:
            if not point.name.startswith(prefixes) or not isfinite(point.value):
                self.left_out += 1
                continue
            key = (_name(point.name), point.counts, tuple((_label(k), v[:_LONGEST]) for k, v in point.attributes))
            if key not in values:
                if len(values) >= MOST_POINTS or not self._has_room(key):
                    self.left_out += 1
                    continue
                self._count += 1
                self._names[key[0]] += 1
                self._labels[key[0]] = self._labels_with(key)
            values[key] = point.value + (values.get(key, 0.0) if point.delta else 0.0)
        self._clients[instance] = (labels, values)

    def _has_room(self, key: _Key) -> bool:
        """True if one more point is within the bounds of all clients together."""
        return (
            self._count < MOST_POINTS_IN_ALL
            and (key[0] in self._names or len(self._names) < MOST_NAMES)
            and len(self._labels_with(key)) <= MOST_LABELS
        )

    def _labels_with(self, key: _Key) -> frozenset[str]:
        """The labels of a metric with those of one more point."""
        return self._labels.get(key[0], frozenset()).union(label for label, _ in key[2])

    def forget(self, instance: str) -> None:
        _, values = self._clients.pop(instance, ((), {}))
        self._count -= len(values)
        self._names.subtract(key[0] for key in values)
        self._names = +self._names
        self._labels = {name: self._labels[name] for name in self._names}

    def samples(self) -> Iterator[Sample]:
        """The values of all clients, one family for each name, with the labels of all its points."""
        families: dict[str, list[tuple[tuple[str, ...], _Key, float]]] = {}
        for labels, values in self._clients.values():
            for key, value in values.items():
                families.setdefault(key[0], []).append((labels, key, value))
        for name, members in sorted(families.items()):
            more = tuple(sorted(self._labels[name]))
            kind = "counter" if all(counts for _, (_, counts, _), _ in members) else "gauge"
            metric = Metric(name, kind, "Pushed by clients (`kafka-client-metrics`).", (*_OF_CLIENT, *more))
            shown: dict[tuple[str, ...], float] = {}
            for labels, (_, _, pairs), value in members:
                own = dict(pairs)
                shown[*labels, *(own.get(label, "") for label in more)] = value
            for labels, value in shown.items():
                yield Sample(metric, labels, value)


def _name(name: str) -> str:
    """A name that no metric of the broker has."""
    return _PREFIX + _NOT_IN_NAMES.sub("_", name.removeprefix("org.apache.kafka."))[:_LONGEST]


def _label(name: str) -> str:
    """A label of Prometheus that is none of those of the client."""
    label = _NOT_IN_NAMES.sub("_", name)[:_LONGEST].lstrip("_") or "label"
    return f"_{label}" if label[0].isdigit() else f"pushed_{label}" if label in (*_OF_CLIENT, "le") else label
