"""Writes packaging/monitoring: alert rules for Prometheus and a dashboard for Grafana, from the tables below.

`python tools/monitoring.py [--check] [--try]`. Every metric of an expression is one that ottla declares, or this ends with
1. `--try` runs Prometheus beside a broker with a producer and a consumer group, and evaluates every expression there.
"""

from __future__ import annotations

import argparse
import json
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "packaging" / "monitoring"


class Alert(NamedTuple):
    name: str
    expression: str
    lasts: str
    severity: str
    says: str


class Panel(NamedTuple):
    title: str
    unit: str
    expressions: dict[str, str]
    """The drawn expressions, by their legends."""


# ruff: noqa: E501

ALERTS = [
    Alert(
        "OttlaBrokerDown",
        'up{job="ottla"} == 0',
        "1m",
        "critical",
        "The broker {{ $labels.instance }} does not answer.",
    ),
    Alert(
        "OttlaOfflinePartitions",
        "max(kafka_controller_kafkacontroller_offlinepartitionscount) > 0",
        "1m",
        "critical",
        "{{ $value }} partitions have no leader: nobody can read or write them.",
    ),
    Alert(
        "OttlaNoController",
        "sum(kafka_controller_kafkacontroller_activecontrollercount) != 1",
        "2m",
        "critical",
        "{{ $value }} brokers take themselves for the controller, and one should.",
    ),
    Alert(
        "OttlaLogDirectoryFailed",
        "kafka_log_logmanager_offlinelogdirectorycount > 0",
        "0m",
        "critical",
        "A disk of {{ $labels.instance }} has failed; other replicas serve what it held, if there are any.",
    ),
    Alert(
        "OttlaUnderMinIsr",
        "sum by (topic) (kafka_cluster_partition_underminisr) > 0",
        "2m",
        "critical",
        "Producers with acks=all are refused by partitions of {{ $labels.topic }}.",
    ),
    Alert(
        "OttlaUnderReplicated",
        "kafka_server_replicamanager_underreplicatedpartitions > 0",
        "10m",
        "warning",
        "{{ $value }} partitions led by {{ $labels.instance }} have replicas out of sync.",
    ),
    Alert(
        "OttlaReplicasFallOut",
        "rate(kafka_server_replicamanager_isrshrinks_total[5m]) > 0",
        "15m",
        "warning",
        "Followers of {{ $labels.instance }} fall out of sync again and again: a slow disk or network, or a dead broker.",
    ),
    Alert(
        "OttlaReplicaInTrouble",
        "max by (topic, partition, reason) (ottla_replica_trouble) > 0",
        "10m",
        "warning",
        "{{ $labels.topic }}-{{ $labels.partition }} is not served whole: {{ $labels.reason }}.",
    ),
    Alert(
        "OttlaDamagedSegments",
        "ottla_damaged_segments > 0",
        "30m",
        "critical",
        "{{ $labels.instance }} has damaged segments that no replica could give back.",
    ),
    Alert(
        "OttlaOwnFaults",
        "increase(ottla_handler_failures_total[10m]) > 0",
        "0m",
        "warning",
        "Requests failed by a fault of the broker {{ $labels.instance }}; its log has the trace.",
    ),
    Alert(
        "OttlaConnectionsRefused",
        "sum by (instance, limit) (rate(ottla_connections_refused_total[5m])) > 0",
        "5m",
        "warning",
        "{{ $labels.instance }} closes connections because of {{ $labels.limit }}.",
    ),
    Alert(
        "OttlaProducersRefused",
        "sum by (topic) (rate(kafka_server_brokertopicmetrics_failedproducerequests_total[5m])) > 0",
        "5m",
        "warning",
        "Records for {{ $labels.topic }} are refused: size, disk or rights.",
    ),
    Alert(
        "OttlaSlowSyncs",
        "histogram_quantile(0.99, sum by (instance, le) (rate(ottla_sync_seconds_bucket[5m]))) > 0.5",
        "10m",
        "warning",
        "One sync in a hundred takes {{ $value }} s on {{ $labels.instance }}; acks=all waits for them.",
    ),
    Alert(
        "OttlaBusyLoop",
        "histogram_quantile(0.99, sum by (instance, le) (rate(ottla_queue_seconds_bucket[5m]))) > 0.05",
        "10m",
        "warning",
        "The core of {{ $labels.instance }} is busy: requests wait {{ $value }} s before they begin.",
    ),
    Alert(
        "OttlaFewFilesLeft",
        'process_open_fds{job="ottla"} / process_max_fds{job="ottla"} > 0.8',
        "5m",
        "warning",
        "{{ $labels.instance }} has most of its files open: no room for more partitions and connections.",
    ),
    Alert(
        "OttlaClockBehind",
        "ottla_clock_behind_seconds > 5",
        "5m",
        "warning",
        "The clock of {{ $labels.instance }} is {{ $value }} s behind the proven time.",
    ),
    Alert(
        "OttlaConsumersFallBehind",
        "min_over_time(deriv(kafka_consumergroup_lag_sum[10m])[30m:1m]) > 0",
        "0m",
        "warning",
        "The group {{ $labels.consumergroup }} has fallen behind in {{ $labels.topic }} for half an hour.",
    ),
]

PANELS = [
    Panel("Brokers", "none", {"alive": "max(kafka_brokers)", "controllers": "sum(kafka_controller_kafkacontroller_activecontrollercount)"}),
    Panel(
        "Partitions in trouble",
        "none",
        {
            "without leader": "max(kafka_controller_kafkacontroller_offlinepartitionscount)",
            "below the minimum in sync": "sum(kafka_cluster_partition_underminisr)",
            "with replicas out of sync": "sum(kafka_server_replicamanager_underreplicatedpartitions)",
        },
    ),
    Panel("Records in", "ops", {"{{topic}}": "sum by (topic) (rate(kafka_server_brokertopicmetrics_messagesin_total[1m]))"}),
    Panel(
        "Bytes",
        "Bps",
        {
            "in": "sum(rate(kafka_server_brokertopicmetrics_bytesin_total[1m]))",
            "out": "sum(rate(kafka_server_brokertopicmetrics_bytesout_total[1m]))",
        },
    ),
    Panel("Lag", "none", {"{{consumergroup}} {{topic}}": "sum by (consumergroup, topic) (kafka_consumergroup_lag_sum)"}),
    Panel("Requests", "reqps", {"{{api}}": "sum by (api) (rate(ottla_requests_total[1m]))"}),
    Panel(
        "Time of requests, 99th of a hundred",
        "s",
        {"{{api}}": "histogram_quantile(0.99, sum by (api, le) (rate(ottla_request_seconds_bucket[5m])))"},
    ),
    Panel(
        "Time of syncs to disk",
        "s",
        {
            "median {{instance}}": "histogram_quantile(0.5, sum by (instance, le) (rate(ottla_sync_seconds_bucket[5m])))",
            "99th {{instance}}": "histogram_quantile(0.99, sum by (instance, le) (rate(ottla_sync_seconds_bucket[5m])))",
        },
    ),
    Panel(
        "Wait for the loop, 99th of a hundred",
        "s",
        {"{{instance}}": "histogram_quantile(0.99, sum by (instance, le) (rate(ottla_queue_seconds_bucket[5m])))"},
    ),
    Panel("Bytes of logs", "bytes", {"{{topic}}": "sum by (topic) (kafka_log_log_size)"}),
    Panel("Processor", "percentunit", {"{{instance}}": 'rate(process_cpu_seconds_total{job="ottla"}[1m])'}),
    Panel("Memory", "bytes", {"{{instance}}": 'process_resident_memory_bytes{job="ottla"}'}),
    Panel("Connections", "none", {"{{instance}} {{listener}}": "kafka_server_socket_server_metrics_connection_count"}),
    Panel("Refused", "ops", {
        "produce {{topic}}": "sum by (topic) (rate(kafka_server_brokertopicmetrics_failedproducerequests_total[1m]))",
        "fetch {{topic}}": "sum by (topic) (rate(kafka_server_brokertopicmetrics_failedfetchrequests_total[1m]))",
    }),
]  # fmt: skip

PROMETHEUS = """\
# Prometheus: what to scrape, and the rules. One target a broker: `ottla start --http-port`.
global:
  scrape_interval: 15s
rule_files:
  - alerts.yml
scrape_configs:
  - job_name: ottla
    static_configs:
      - targets: ["localhost:9308"]
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--check", action="store_true", help="write nothing; end with 1 where a file is not as it would be"
    )
    parser.add_argument("--try", action="store_true", dest="trial", help="evaluate every expression in Prometheus")
    given = parser.parse_args()
    if unknown := unknown_metrics():
        print("".join(f"{name} is not a metric of ottla\n" for name in unknown), end="")
        return 1
    differing = [name for name, text in contents().items() if not _holds(FOLDER / name, text)]
    if given.check:
        print("".join(f"packaging/monitoring/{name} is older than tools/monitoring.py\n" for name in differing), end="")
        return bool(differing)
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in contents().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    return try_out() if given.trial else 0


def _holds(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text


def expressions() -> list[str]:
    return [alert.expression for alert in ALERTS] + [
        expression for panel in PANELS for expression in panel.expressions.values()
    ]


def unknown_metrics() -> list[str]:
    """Names in the expressions that no metric has. Histograms have names with _bucket, _sum and _count."""
    declared = set(
        re.findall(r"^\| `(\w+)` \|", (ROOT / "docs/reference/metrics.md").read_text(encoding="utf-8"), re.M)
    )
    used = {name for text in expressions() for name in re.findall(r"\b(?:kafka|ottla|process)_\w+", text)}
    return sorted(
        name for name in used if name not in declared and re.sub("_(bucket|sum|count)$", "", name) not in declared
    )


def contents() -> dict[str, str]:
    """The files by name."""
    lines = ["# Made by tools/monitoring.py; changes belong there.", "groups:", "  - name: ottla", "    rules:"]
    for alert in ALERTS:
        lines += [
            f"      - alert: {alert.name}",
            f"        expr: {json.dumps(alert.expression)}",
            f"        for: {alert.lasts}",
            "        labels:",
            f"          severity: {alert.severity}",
            "        annotations:",
            f"          summary: {json.dumps(alert.says)}",
        ]
    return {
        "alerts.yml": "\n".join(lines) + "\n",
        "dashboard.json": json.dumps(dashboard(), indent=1) + "\n",
        "prometheus.yml": PROMETHEUS,
    }


def dashboard() -> dict[str, Any]:
    """Two panels in a row, each a graph over time."""
    source = {"type": "prometheus", "uid": "${source}"}
    panels = [
        {
            "id": number + 1,
            "type": "timeseries",
            "title": panel.title,
            "datasource": source,
            "gridPos": {"x": number % 2 * 12, "y": number // 2 * 8, "w": 12, "h": 8},
            "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
            "targets": [
                {"refId": chr(ord("A") + index), "expr": expression, "legendFormat": legend, "datasource": source}
                for index, (legend, expression) in enumerate(panel.expressions.items())
            ],
        }
        for number, panel in enumerate(PANELS)
    ]
    return {
        "title": "ottla",
        "uid": "ottla",
        "schemaVersion": 39,
        "tags": ["ottla", "kafka"],
        "refresh": "15s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {
            "list": [{"name": "source", "type": "datasource", "query": "prometheus", "label": "Prometheus"}]
        },
        "panels": panels,
    }


def try_out() -> int:
    """Prometheus scrapes a broker that has traffic. A panel without a single value ends it with 1."""
    from ottla.client import Consumer, Producer

    with tempfile.TemporaryDirectory(prefix="ottla-monitoring-") as scratch:
        folder = Path(scratch)
        with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
            http, port = one.getsockname()[1], other.getsockname()[1]
        options = ["--data", folder / "data", "--port", "0", "--http-port", str(http)]
        broker = subprocess.Popen(
            [sys.executable, "-m", "ottla", "start", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        prometheus = _start_prometheus(folder, http, port)
        try:
            assert broker.stdout is not None
            bootstrap = broker.stdout.readline().split()[-1]
            with (
                Producer(bootstrap) as producer,
                Consumer(bootstrap, group_id="watched", auto_offset_reset="earliest") as consumer,
            ):
                consumer.subscribe(["watched"])
                until, empty = time.monotonic() + TRIAL_SECONDS, expressions()
                while time.monotonic() < until and drawn().intersection(empty):  # rates need several scrapes
                    producer.produce("watched", "a record").result()
                    consumer.poll(timeout_ms=200)
                    empty = [text for text in empty if not _values(port, text)]
        finally:
            for process in (broker, prometheus):
                process.kill()
                process.wait()
    print(f"{len(expressions())} expressions evaluated; without a value: {len(empty)}")
    print("".join(f"  {text}\n" for text in empty), end="")
    return bool(drawn().intersection(empty))


TRIAL_SECONDS = 120


def drawn() -> set[str]:
    return {text for panel in PANELS for text in panel.expressions.values()}


def _start_prometheus(folder: Path, http: int, port: int) -> subprocess.Popen[bytes]:
    """Prometheus on a port, with our configuration but for the time between scrapes, once promtool has checked it."""
    programs = ROOT / ".cache" / "prometheus" / "usr" / "bin"
    text = PROMETHEUS.replace("15s", "1s").replace("localhost:9308", f"localhost:{http}")
    (folder / "prometheus.yml").write_text(text, encoding="utf-8")
    (folder / "alerts.yml").write_text(contents()["alerts.yml"], encoding="utf-8")
    subprocess.run([programs / "promtool", "check", "config", folder / "prometheus.yml"], check=True)
    prometheus = subprocess.Popen(
        [
            programs / "prometheus",
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'series'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--log.level=error",
        ]
    )
    while prometheus.poll() is None:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready").close()
            return prometheus
        except OSError:
            time.sleep(0.1)
    sys.exit(f"Prometheus ended with {prometheus.returncode}")


def _values(port: int, expression: str) -> list[object]:
    url = f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode({"query": expression})
    with urllib.request.urlopen(url) as answer:
        found: list[object] = json.load(answer)["data"]["result"]
        return found


if __name__ == "__main__":
    sys.exit(main())
