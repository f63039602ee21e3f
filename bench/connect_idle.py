"""The memory of a worker that idles with ten light connectors: `python -m bench.connect_idle [--connectors N]`.

A group of one worker runs file sources and file sinks in pairs, over a broker of its own. Each pair carries one line;
then nothing happens. Exits with 1 above the limit.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from bench.brokers import process_cpu_seconds, resident_mb
from ottla.testing import TestBroker

MOST_MB = 60.0
IDLE_S = 20.0
WITHIN_S = 120.0
STRING = "org.apache.kafka.connect.storage.StringConverter"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.connect_idle", description=__doc__)
    parser.add_argument("--connectors", type=int, default=10)
    options = parser.parse_args()
    with TestBroker() as broker, tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        properties = {
            "bootstrap.servers": broker.bootstrap_servers, "group.id": "idle", "config.storage.topic": "configs",
            "status.storage.topic": "status", "offset.storage.topic": "offsets", "key.converter": STRING,
            "value.converter": STRING, "listeners": "http://127.0.0.1:0", "offset.flush.interval.ms": "1000",
        }  # fmt: skip
        file = folder / "worker.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        command = [sys.executable, "-m", "ottla", "connect", "start", str(file)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                url = process.stdout.readline().split()[3]
                carry_a_line_each(url, folder, options.connectors)
                cpu = process_cpu_seconds(process.pid)
                time.sleep(IDLE_S)
                used, memory = process_cpu_seconds(process.pid) - cpu, resident_mb(process.pid)
            finally:
                process.terminate()
                process.wait(60)
    print(f"{options.connectors} connectors: {memory:.1f} MB resident, {used / IDLE_S:.1%} of a core while idle")
    return 1 if memory > MOST_MB else 0


def carry_a_line_each(url: str, folder: Path, count: int) -> None:
    """Make pairs of connectors, and wait until a line went through each pair."""
    targets = []
    for number in range(count // 2):
        source, target = folder / f"in-{number}.txt", folder / f"out-{number}.txt"
        source.write_text("a line\n")
        targets.append(target)
        topic = f"idle-{number}"
        put(url, f"source-{number}", {"connector.class": "FileStreamSource", "file": str(source), "topic": topic})
        put(url, f"sink-{number}", {"connector.class": "FileStreamSink", "file": str(target), "topics": topic})
    end = time.monotonic() + WITHIN_S
    while not all(target.exists() and target.read_text() == "a line\n" for target in targets):
        if time.monotonic() > end:
            raise RuntimeError(f"not every pair carried its line within {WITHIN_S:.0f} s")
        time.sleep(0.1)


def put(url: str, name: str, config: dict[str, str]) -> None:
    headers = {"content-type": "application/json"}
    body = json.dumps(config).encode()
    with urllib.request.urlopen(urllib.request.Request(f"{url}/connectors/{name}/config", body, headers, method="PUT")):
        pass


if __name__ == "__main__":
    sys.exit(main())
