"""ottla's mirror beside MirrorMaker 2 in one run: `python -m bench.mirror [--records N] [--size BYTES]`.

Both copy the same topic of one broker, one after the other, each to a broker of its own. Rates and processor time count
from the first record that arrives: MirrorMaker 2 starts for many seconds. Exits with 1 where the mirror is less than
four times as fast, less than eight times as fast by its processor time, or has more than a tenth of the memory.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.server.processes import OttlaProcess

from bench.brokers import process_cpu_seconds, resident_mb
from ottla.client import Admin, Cluster, Producer
from ottla.client.errors import ClientError
from ottla.client.model import LATEST
from ottla.kernel.errors import ApiError

JARS = Path(os.environ.get("OTTLA_MIRROR_JARS", ".cache/mirror/libs"))
WITHIN_S = 600.0
FACTORS = ("", "offset-syncs.topic.", "checkpoints.topic.", "heartbeats.topic.", "offset.storage.", "status.storage.",
           "config.storage.")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Measured:
    """One program's copy."""

    start_s: float
    rate: float
    per_cpu_s: float
    memory_mb: float

    def text(self, name: str) -> str:
        return (
            f"{name:<16}{self.start_s:>8.1f} s{self.rate:>12,.0f}/s{self.per_cpu_s:>14,.0f}/cpu s"
            f"{self.memory_mb:>10.0f} MB"
        )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.mirror", description=__doc__)
    parser.add_argument("--records", type=int, default=400_000)
    parser.add_argument("--size", type=int, default=200)
    options = parser.parse_args()
    if not list(JARS.glob("connect-mirror-4*.jar")):
        parser.error(f"MirrorMaker 2 is not in {JARS}: run `tools/setup.sh mirror-jars`, or set OTTLA_MIRROR_JARS")
    with tempfile.TemporaryDirectory(prefix="mirror-bench-") as made, ExitStack() as brokers:
        folder = Path(made)
        source, first, second = (
            brokers.enter_context(OttlaProcess(folder / name)).address for name in ("a", "maker", "ours")
        )
        fill(source, options.records, options.size)
        maker = ["java", "-Xmx512m", "-cp", f"{JARS}/*", "org.apache.kafka.connect.mirror.MirrorMaker"]
        ours = [sys.executable, "-m", "ottla", "mirror", "start"]
        theirs = measure(maker, properties(folder, source, first), first, options.records, folder / "maker.log")
        mine = measure(ours, properties(folder, source, second), second, options.records, folder / "ours.log")
    print(f"{'':<16}{'first after':>10}{'records':>14}{'by processor':>20}{'peak':>13}")
    print(theirs.text("MirrorMaker 2"))
    print(mine.text("ottla mirror"))
    rate, cpu, memory = (
        mine.rate / theirs.rate, mine.per_cpu_s / theirs.per_cpu_s, theirs.memory_mb / mine.memory_mb,
    )  # fmt: skip
    print(f"{rate:.1f} times the rate, {cpu:.1f} times by processor time, 1/{memory:.0f} of the memory")
    return int(rate < 4 or cpu < 8 or memory < 10)


def fill(bootstrap: str, records: int, size: int) -> None:
    """Two partitions of batches of about 16 KiB."""
    with Admin(bootstrap) as admin:
        admin.create_topic("bulk", partitions=2)
    with Producer(bootstrap, linger_ms=5) as producer:
        for number in range(records):
            producer.produce("bulk", os.urandom(size // 2).hex(), partition=number % 2)


def properties(folder: Path, source: str, target: str) -> Path:
    found = {
        "clusters": "a, b", "a.bootstrap.servers": source, "b.bootstrap.servers": target, "a->b.enabled": "true",
        "a->b.topics": "bulk", "emit.heartbeats.enabled": "false", "tasks.max": "2",
    } | {f"{name}replication.factor": "1" for name in FACTORS}  # fmt: skip
    path = folder / f"{target.rpartition(':')[2]}.properties"
    path.write_text("".join(f"{name} = {value}\n" for name, value in found.items()))
    return path


def measure(command: list[str], path: Path, target: str, records: int, log: Path) -> Measured:
    """Run a mirror until all has arrived."""
    begun = time.monotonic()
    with log.open("wb") as out, subprocess.Popen([*command, str(path)], stdout=out, stderr=out) as process:
        try:
            count = 0
            while not (count := arrived(target)):
                _still(process, begun, log)
            first, before, cpu = time.monotonic(), count, process_cpu_seconds(process.pid)
            while (count := arrived(target)) < records:
                _still(process, begun, log)
            took, used = time.monotonic() - first, process_cpu_seconds(process.pid) - cpu
            memory = resident_mb(process.pid, "VmHWM")
        finally:
            process.terminate()
            process.wait(60)
    return Measured(first - begun, (count - before) / took, (count - before) / used, memory)


def _still(process: subprocess.Popen[bytes], begun: float, log: Path) -> None:
    if process.poll() is not None or time.monotonic() - begun > WITHIN_S:
        raise RuntimeError(f"not everything was copied:\n{log.read_text(errors='replace')[-2000:]}")
    time.sleep(0.02)


def arrived(bootstrap: str) -> int:
    try:
        with Cluster(bootstrap) as cluster:
            return sum(each.offset for each in cluster.list_offsets(cluster.partitions("a.bulk"), LATEST).values())
    except (ApiError, ClientError):
        return 0


if __name__ == "__main__":
    sys.exit(main())
