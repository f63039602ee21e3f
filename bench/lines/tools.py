"""A million lines of 100 bytes by `ottla produce` and `ottla consume`, and by kcat, on one broker of ours; and single
records by `ottla.client` and by kafka-python (bench/client_single.py compares more clients).

The time of a command is that from its start to its end, as a user waits for it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from bench import client_single
from bench.lines import Figure, Figures, Line
from bench.rig import Rig

LINES_COUNT = 1_000_000
LINE_BYTES = 100
MOST_OF_KCAT = 1.5
CONTESTANTS = ("ottla", "kcat")
_PATIENCE_S = 300


def lines_of(rig: Rig) -> tuple[Path, int]:
    """A file of lines that do not repeat, made once, and their number."""
    count = rig.sized(LINES_COUNT)
    path = rig.folder / f"lines-{count}.txt"
    if not path.exists():
        letters = LINE_BYTES - len("0000000000 ") - len("\n")
        path.write_text("".join(f"{number:010} {number * 2654435761 % 2**32:0{letters}}\n" for number in range(count)))
    return path, count


def _timed(command: list[str], *, output: int = subprocess.DEVNULL) -> float:
    begun = time.perf_counter()
    subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.PIPE, check=True, timeout=_PATIENCE_S
    )
    return time.perf_counter() - begun


def _kcat() -> str:
    found = shutil.which("kcat")
    if found is None:
        raise RuntimeError("kcat is not installed: tools/setup.sh clients")
    return found


def _ottla(*words: str) -> list[str]:
    return [sys.executable, "-m", "ottla.cli.main", *words]


def _produce(contestant: str, address: str, topic: str, path: Path) -> float:
    if contestant == "kcat":
        return _timed([_kcat(), "-P", "-b", address, "-t", topic, "-l", str(path)])
    return _timed(_ottla("produce", topic, str(path), "-b", address))


def _consume(contestant: str, address: str, topic: str, count: int, output: int) -> float:
    if contestant == "kcat":
        return _timed(
            [_kcat(), "-C", "-b", address, "-t", topic, "-o", "beginning", "-c", str(count), "-q"], output=output
        )
    return _timed(_ottla("consume", topic, "--from-beginning", "-n", str(count), "-b", address), output=output)


def measure_produce(rig: Rig, contestant: str) -> Figures:
    """Write the file into a topic of its own."""
    path, count = lines_of(rig)
    address = rig.broker("ottla").address
    with rig.topic("ottla") as topic:
        os.sync()
        seconds = _produce(contestant, address, topic, path)
    return {"seconds": seconds, "lines_per_second": count / seconds}


def measure_consume(rig: Rig, contestant: str) -> Figures:
    """Read the topic into a file; it must be the file that was written."""
    path, count = lines_of(rig)
    address = rig.broker("ottla").address
    copy = rig.folder / "lines-read.txt"
    with rig.topic("ottla") as topic:
        _produce("kcat", address, topic, path)
        os.sync()
        with copy.open("wb") as out:
            seconds = _consume(contestant, address, topic, count, out.fileno())
        if copy.read_bytes() != path.read_bytes():
            raise RuntimeError(f"{contestant} has not printed the lines that were written")
    return {"seconds": seconds, "lines_per_second": count / seconds}


def measure_client(rig: Rig, contestant: str) -> Figures:
    """Produce records one at a time, in a process of its own."""
    client = {"ottla": "ottla.client"}.get(contestant, contestant)
    rate, _ = client_single.measured(client, rig.broker("ottla").address, rig.sized(client_single.RECORDS))
    return {"records_per_second": rate}


FIGURES = (
    Figure("seconds", "time of the command", "s", more_is_better=False, at_most=MOST_OF_KCAT),
    Figure("lines_per_second", "lines a second", "lines/s"),
)
LINES = [
    Line("tools-produce", FIGURES, measure_produce, contestants=CONTESTANTS, order=90),
    Line("tools-consume", FIGURES, measure_consume, contestants=CONTESTANTS, order=90),
    Line(
        "tools-client",
        (Figure("records_per_second", "records, one at a time", "records/s"),),
        measure_client,
        contestants=("ottla", "kafka-python"),
        order=90,
    ),
]
