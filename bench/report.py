"""Reports the race: a table with bars, the raw runs as JSON, and the pages of docs/reference/performance*.md."""

from __future__ import annotations

import json
import math
import os
import platform
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from statistics import median

from bench.brokers import ROOT, BareBroker
from bench.lines import Figure, Line

BAR = 24
WIDEST = 8.0
"""The ratio at the ends of the bar, whose logarithmic scale goes from 1/8 to 8; its middle is 1."""


@dataclass
class Outcome:
    """The figures of one line of the race."""

    line: Line
    runs: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    ratios: dict[str, float] = field(default_factory=dict)
    fault: str = ""
    others: float = 0.0
    """The share of the machine that other processes used meanwhile."""

    def __post_init__(self) -> None:
        self.runs = {name: [] for name in self.line.contestants}

    def values(self, contestant: str, key: str) -> list[float]:
        """One figure from every run of one side."""
        return [run[key] for run in self.runs[contestant]]


@dataclass
class Race:
    """The whole run."""

    facts: dict[str, object]
    outcomes: list[Outcome] = field(default_factory=list)
    brokers: dict[str, dict[str, object]] = field(default_factory=dict)

    @property
    def load_per_core(self) -> float:
        return float(str(self.facts["load_before"])) / int(str(self.facts["cores"]))

    @property
    def commit(self) -> str:
        return str(self.facts["commit"])


def machine_facts(folder: Path) -> dict[str, object]:
    """Facts about the machine that a reader needs to judge the figures."""
    cpu = next(
        (
            row.partition(":")[2].strip()
            for row in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in row
        ),
        platform.machine(),
    )
    return {
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "cpu": cpu,
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "kernel": platform.release(),
        "load_before": round(os.getloadavg()[0], 2),
        "file_system": output_of("stat", "-f", "-c", "%T", str(folder)),
        "python": platform.python_version(),
        "java": output_of("java", "-version").splitlines()[0] if output_of("java", "-version") else "none",
        "ottla": version("ottla"),
        "commit": commit_here(ROOT),
        "kafka": "4.3.1",
    }


WITH_CHANGES = " with changes"
"""Follows a commit where what runs is not what was committed."""


def commit_here(repository: Path) -> str:
    """The commit that runs; an empty string without git."""
    commit = output_of("git", "-C", str(repository), "rev-parse", "--short", "HEAD", must=True)
    code = ("src", "bench", ":!bench/results")
    changed = output_of("git", "-C", str(repository), "status", "--porcelain", "--", *code, must=True)
    return commit + WITH_CHANGES if changed else commit


def output_of(*command: str, must: bool = False) -> str:
    """The output of a program; an empty string if it is not installed or, where it `must` end well, fails."""
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    if must and result.returncode:
        return ""
    return (result.stdout or result.stderr).strip()


def amount(value: float) -> str:
    """A number with its significant digits."""
    if not math.isfinite(value):
        return "-"
    for limit, divisor, letter in ((1e6, 1e6, " M"), (1e4, 1e3, " k")):
        if abs(value) >= limit:
            return f"{value / divisor:.{2 if divisor == 1e6 else 1}f}{letter}"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def spread(values: list[float]) -> str:
    """Half the distance between the extremes, in per cent of the median."""
    middle = median(values)
    return f"±{(max(values) - min(values)) / 2 / middle * 100:.0f}%" if middle else "-"


def bar(ratio: float, more_is_better: bool) -> str:
    """A bar for a ratio: it grows to the right of the mark if we are ahead, to the left if we are behind."""
    if not (math.isfinite(ratio) and ratio > 0):
        return " " * BAR + "|"
    gain = ratio if more_is_better else 1 / ratio
    half = BAR // 2
    length = min(half, round(abs(math.log(gain) / math.log(WIDEST)) * half))
    if gain >= 1:
        return " " * half + "|" + "█" * length + " " * (half - length)
    return " " * (half - length) + "▒" * length + "|" + " " * half


def wish(figure: Figure) -> str:
    """The wanted ratio."""
    if figure.at_least is not None:
        return f"≥ {figure.at_least:g}"
    return f"≤ {figure.at_most:g}" if figure.at_most is not None else ""


def rows(outcome: Outcome) -> list[tuple[str, ...]]:
    """The figures of one line: title, ours, theirs, ratio, wanted, verdict, bar."""
    if outcome.fault:
        return [(outcome.line.name, "", "", "", "", "failed", outcome.fault)]
    found: list[tuple[str, ...]] = []
    for figure in outcome.line.figures:
        ours, theirs = (outcome.values(name, figure.key) for name in outcome.line.contestants)
        ratio = outcome.ratios[figure.key]
        reached = figure.reached(ratio)
        found.append(
            (
                figure.title,
                f"{amount(median(ours))} {spread(ours)}",
                f"{amount(median(theirs))} {spread(theirs)}",
                f"{ratio:.2f}" + ("" if figure.more_is_better else " (less is better)"),
                wish(figure),
                "" if reached is None else "yes" if reached else "no",
                bar(ratio, figure.more_is_better),
            )
        )
    return found


HEAD = ("", "ours", "theirs", "ratio", "wanted", "reached", f"1/{WIDEST:g}".ljust(BAR // 2) + f"|{WIDEST:g}x".rjust(9))
WIDTHS = (38, 16, 16, 23, 7, 7, 0)


def table(lines: list[tuple[str, ...]]) -> str:
    """The rows of all lines, aligned for a terminal."""
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, WIDTHS, strict=True)).rstrip() for row in lines
    )


def print_outcome(outcome: Outcome) -> None:
    """Print one line as soon as it is measured."""
    print(table(rows(outcome)), flush=True)


def print_summary(race: Race) -> None:
    """Print the whole table, then memory."""
    print("\n" + table([HEAD, *(row for outcome in race.outcomes for row in rows(outcome))]))
    for name, facts in race.brokers.items():
        resident, peak = facts["resident_mb"], facts["peak_resident_mb"]
        print(f"{name}: {resident:.0f} MB resident after the last run, {peak:.0f} at most")
    missed = [row[0] for outcome in race.outcomes for row in rows(outcome) if row[5] in {"no", "failed"}]
    print("every wanted ratio was reached" if not missed else "not reached: " + "; ".join(missed))


def save_results(race: Race) -> Path:
    """Write every run, the configurations and the machine as JSON."""
    folder = ROOT / "bench" / "results"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}.json"
    lines = [
        {
            "name": outcome.line.name,
            "contestants": outcome.line.contestants,
            "figures": [asdict(figure) for figure in outcome.line.figures],
            "ratios": outcome.ratios,
            "runs": outcome.runs,
            "fault": outcome.fault,
            "others": outcome.others,
        }
        for outcome in race.outcomes
    ]
    path.write_text(json.dumps({"facts": race.facts, "brokers": race.brokers, "lines": lines}, indent=1) + "\n")
    return path


INTRODUCTION = """\
# Performance: the race against Apache Kafka

Written by `make bench`. Both brokers ran on the same machine in the same run, by turns (ours, theirs, ours, …), after a
warm-up that is not counted; each figure is the median of its runs, ± half the distance of the extremes. Both kept their
data on the same file system; what a run left unwritten was written out before the next began, the files of deleted
topics were gone (Apache Kafka's `log.segment.delete.delay.ms` is a second here, so that this does not take a minute),
and free memory was touched, so that neither paid for pages that a virtual machine had given back. Nothing else used
more than 5 % of the machine while a line was measured, else it was measured again. Such machines are shared: read
ratios, not speeds.

While one record is on its way, cores without work halt, and a virtual machine wakes them by way of its host. In the
line "cores kept awake" a loop of the lowest priority runs on each, so that none halts.

**Which code ran.** Commit `{commit}`, {date}. A test fails once more than 30 commits have changed the code that a
record crosses in the broker and nothing has measured them, neither this race nor a comparison with an earlier commit
(`python -m bench.freshness` lists them), or more than 90 since this race.

**What is compared.** The client is `bench/driver.c` over librdkafka {librdkafka}, the same against both: records of
200 bytes, uncompressed, one partition and one connection unless the line says otherwise. Batches of "1MB" are as many
records as fit into 1,000,000 bytes. Produce is timed from the first send to the last delivery report. Apache Kafka
{kafka} is one KRaft node with the configuration it ships and 1 GiB of heap; ours is `ottla start` as it is. Lines of
"3 brokers" are `ottla cluster up` and three KRaft nodes, each broker and controller, with 512 MiB of heap; topics have
a replica on each broker and min.insync.replicas=2.

**Not the same promise.** At `acks=all` our answer leaves after `fdatasync`: the record is on the disk. Apache Kafka's
answer leaves when the record is in the page cache, and a power cut can take it back; with three brokers ours is on the
disks of all in-sync replicas, theirs in their page caches. At `acks=1` neither waits for the disk: ours syncs every 20
ms while nobody reads, theirs leaves that to the system.


**Lines of Spark** compare data sources in one session of pyspark 4.2 on all cores, both over our broker: ours and
Spark's own Kafka connector. The session is the one that ottla makes, in "untuned" lines one of which only the master is
set. "Cold" is the first job of a new session. What the lake loader does more than the connector's data frame (plans and
commits on disk, the audit's counts) is in its time. S3 is moto's server, one Python process on the same machine: both
sides wait for it. Beside Delta stands Spark's own writer with delta-spark and S3A; beside Avro stand the connector,
fastavro in `mapInArrow`, and Spark's Parquet writer.

**Lines beside NATS, RabbitMQ and ActiveMQ**, where these were at hand, have a client of each server's own: compare the
processor time of the servers, and [read what each promises](../internals/other-queues.md).
"""


MISSED = """\
**Lines that are not reached.** To say what could be reached, a bare server (`bench/bare.py`) stood in our place beside
Apache Kafka in lines of one broker. It receives a batch, gives it an offset, appends it to a file and answers, and
hands that file out by `sendfile`; it checks nothing, and knows no producer, replica or group. So its ratio is about the
best that any broker could have there, with this client on this machine.

| | wanted | ours | the bare server |
|---|--:|--:|--:|"""

SHARES = """
Client and broker share the machine's {cores} cores, and both sides have the same client. This table says how many cores
each of them kept busy while the line was timed, and the client's busiest thread alone. Where client and broker kept all
cores busy together, a line can go faster only by less work of one of the two; the client's work is the same whichever
broker it talks to. librdkafka serves a connection by one thread: where that thread kept a core busy, the client is the
limit.

| | our client | its busiest thread | our broker | both | their client | its busiest thread | their broker | both |
|---|--:|--:|--:|--:|--:|--:|--:|--:|"""


def ceilings_of_missed(race: Race) -> list[str]:
    """A row for each figure that was not reached: what is wanted, our ratio, and the bare server's where it ran."""
    ceilings = {outcome.line.ceiling_of: outcome.ratios for outcome in race.outcomes if not outcome.fault}
    return [
        f"| {place} | {wish(figure)} | {outcome.ratios[figure.key]:.2f} | {f'{best:.2f}' if best else '-'} |"
        for outcome in race.outcomes
        if not outcome.fault and not outcome.line.ceiling_of
        for figure in outcome.line.figures
        if figure.reached(outcome.ratios[figure.key]) is False
        for first in [outcome.line.figures[0]]
        for place in [f"{first.title}: {figure.title.strip()}" if figure.title.startswith(" ") else figure.title]
        for best in [ceilings.get(outcome.line.name, {}).get(figure.key)]
    ]


def shares_of_missed(race: Race) -> list[str]:
    """A row for each line whose rate was not reached: the cores that client and broker kept busy on each side."""
    return [
        f"| {outcome.line.figures[0].title} | " + " | ".join(f"{share:.2f}" for share in shares) + " |"
        for outcome in race.outcomes
        if not outcome.fault and outcome.line.figures[0].reached(outcome.ratios[outcome.line.figures[0].key]) is False
        for shares in [[share for name in outcome.line.contestants for share in cores_busy(outcome, name)]]
        if shares
    ]


_SHARES = {"seconds", "client_cpu_seconds", "client_busiest_thread_seconds", "broker_cpu_per_million", "records"}


def cores_busy(outcome: Outcome, contestant: str) -> tuple[float, ...]:
    """The cores that the client, its busiest thread, the broker, and client and broker together kept busy.

    Each is the median of the runs; () if not measured.
    """
    runs = outcome.runs[contestant]
    if not all(run.keys() >= _SHARES for run in runs):
        return ()
    client = [run["client_cpu_seconds"] / run["seconds"] for run in runs]
    thread = [run["client_busiest_thread_seconds"] / run["seconds"] for run in runs]
    broker = [run["broker_cpu_per_million"] * run["records"] / 1e6 / run["seconds"] for run in runs]
    return median(client), median(thread), median(broker), median(map(sum, zip(client, broker, strict=True)))


CONNECT_AND_STREAMS = """\
# Performance: Connect and Streams beside Kafka's

Written by `make bench ARGS="--page connect-streams"`, by the rules of [the race of the brokers](performance.md): by
turns, medians ± half the distance of the extremes, on a quiet machine. Both sides work over our broker. Read ratios,
not speeds.

**Which code ran.** Commit `{commit}`, {date}.

**Connect.** A worker of ours beside one of Kafka's Connect {kafka} with the heap that its script gives it (256 MiB to
2 GiB), one task each: lines of a file into a topic and back, records into PostgreSQL beside Debezium's sink, a
topic into an Iceberg table beside Iceberg's own sink. Memory is that of the whole worker at its most.

**Streams.** Topologies of ours beside Kafka Streams {kafka}, exactly once on both sides, two partitions, two workers
each: two processes of ours without Spark, or Spark with two cores; two threads of Kafka Streams without a cache, since
ours sends every result too. The clock runs from the first committed results to the last, so starts are not in it.
"""


@dataclass(frozen=True, slots=True)
class Page:
    """One page of results, and the lines that stand on it."""

    path: Path
    introduction: str
    shows: Callable[[str], bool]
    """Says of a line's name whether it stands here."""


def of_connect_or_streams(name: str) -> bool:
    """True for lines of Connect and of Streams."""
    return name.startswith(("connect-", "streams-"))


REFERENCE = ROOT / "docs" / "reference"
PAGES = {
    "broker": Page(REFERENCE / "performance.md", INTRODUCTION, lambda name: not of_connect_or_streams(name)),
    "connect-streams": Page(REFERENCE / "performance-connect-streams.md", CONNECT_AND_STREAMS, of_connect_or_streams),
}


def write_performance(page: Page, race: Race) -> Path:
    """Write a page from this run."""
    path = page.path
    race = replace(race, outcomes=[outcome for outcome in race.outcomes if page.shows(outcome.line.name)])
    text = [page.introduction.format(**race.facts)]
    text.append(
        "Machine: " + ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in race.facts.items()) + ".\n"
    )
    text.append("| | ours | theirs | ratio | wanted | reached | |\n|---|--:|--:|--:|--:|---|---|")
    text += [
        "| " + " | ".join((*row[:6], f"`{row[6].replace('|', '¦')}`")) + " |"
        for outcome in race.outcomes
        if not outcome.line.ceiling_of
        for row in rows(outcome)
    ]
    text.append(f"\nBars: logarithmic from 1/{WIDEST:g} to {WIDEST:g} times; right of the mark ours is ahead.\n")
    if missed := ceilings_of_missed(race):
        text += [MISSED, *missed, ""]
    if shares := shares_of_missed(race):
        text += [SHARES.format(**race.facts).lstrip(), *shares, ""]
    text.append("| after the last run | resident memory | at most |\n|---|--:|--:|")
    text += [
        f"| {name} | {facts['resident_mb']:.0f} MB | {facts['peak_resident_mb']:.0f} MB |"
        for name, facts in race.brokers.items()
        if name != BareBroker.name
    ]
    text.append("\nThe raw runs and both configurations are in `bench/results/`.\n")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(text))
    return path
