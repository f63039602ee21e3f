"""The page that compares ours with Kafka Streams: `python -m tests.streams.differences` writes it anew.

Its tables are what test_streams_oracle.py holds against Kafka's TopologyTestDriver.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.streams.topologies import TOPOLOGIES, built, window_reduce

from ottla.streams import TEXT, StreamsBuilder, Topology
from ottla.streams.graph import ProcessorNode

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "streams.md"
Row = tuple[str, str | None, str | None, int]


@dataclass(frozen=True, slots=True)
class Measured:
    """An input for which ours and Kafka's driver give different records, by the topology's name in the oracle."""

    sentence: str
    name: str
    rows: tuple[Row, ...]
    ours: list[list[Any]]
    kafkas: list[list[Any]]


MEASURED = (
    Measured(
        "`reduce` over windows leaves out records without a value, as `reduce` without windows does; Kafka calls the "
        "reducer with null",
        "window_reduce",
        (("a", "k", "1", 0), ("a", "k", None, 1), ("a", "k", "2", 2)),
        [["k@0-10", "1", 0], ["k@0-10", "1,2", 2]],
        [["k@0-10", "1", 0], ["k@0-10", "1,null", 1], ["k@0-10", "1,null,2", 2]],
    ),
)
APART = """\
* Joined records that met nobody, and windows that emit on close, are looked for at every record; Kafka looks once a
  second of the time of day, so that there they may come later.
* Windows expire exactly at their retention; Kafka drops whole segments, and finds a row for longer.
* A topic, or a pattern of topics, is read by one source; Kafka merges sources that read the same.
* A topic that matches a pattern and appears later is read from its beginning; at the start one must match. A result
  that is written to a topic that matches is read again in `TopologyTest` too.
* All topics of a sub-topology have the same number of partitions, also where streams are only merged.
* Windowed keys of results are placed by all of their bytes; Kafka places them by the key without the window.
* The left table of a foreign-key join must be written with Kafka's default partitioner.
* Changelogs of versioned tables have a record a version, with the time in the key.
* A record without a key in a left join with grace is joined with nothing, as in other left joins; Kafka fails there.
* Records that waited for a join with grace have no place any more for processors, errors and dead letters behind it.
* In the text of a topology the neighbours of a node may be in another order: Kafka sorts them by sizes that still
  change while it does so. About two of a thousand topologies made at random show it.
* There is no record cache: every update is sent on.
* Between partitions records are taken in the order in which they were fetched; Kafka waits for others
  (`max.task.idle.ms`). A log of days that is replayed at once comes out of order by days: give its windows that grace.
* A record that fails under `on_error=skip` or `dead-letter` is dropped at the node that failed, as with Kafka's
  handlers; several failures of one record give one dead letter, where Kafka writes one each.
"""


def different(name: str) -> Topology:
    """The topology of a measured difference."""
    builder = StreamsBuilder(key=TEXT, value=TEXT)
    {"window_reduce": window_reduce}[name](builder)
    return builder.build()


def page() -> str:
    """The whole page."""
    equal = "\n".join(f"| `{name}` | {_operations(built(name))} |" for name in TOPOLOGIES)
    measured = "\n".join(
        f"| {each.sentence} | {_shown(each.rows)} | {_shown(each.ours)} | {_shown(each.kafkas)} |" for each in MEASURED
    )
    return f"""\
# Streams beside Kafka Streams

Made by `tests/streams/differences.py`. The tests hold the tables against Kafka's own `TopologyTestDriver`, 4.3.1.

## Equal

For these {len(TOPOLOGIES)} topologies the text of `describe()` is equal byte for byte, and so are the records that come
out, one by one and in order, over inputs made at random with equal times, disorder, tombstones and null keys. The names
are those of `tests/streams/topologies.py`.

| topology | nodes |
|---|---|
{equal}

## Different, as measured

Records are shown as key, value and time.

| difference | in | ottla | Kafka |
|---|---|---|---|
{measured}

## Different by construction

The driver, which has one partition, does not show these:

{APART}"""


def _operations(topology: Topology) -> str:
    """The kinds of nodes, as Kafka names them, each once."""
    names = [name for name, node in topology.nodes.items() if isinstance(node, ProcessorNode)]
    kinds = dict.fromkeys(re.sub(r"-?\d+$", "", name) for name in names)
    return ", ".join(sorted(kind.removeprefix("KSTREAM-").lower() for kind in kinds))


def _shown(rows: Any) -> str:
    return " · ".join(" ".join("null" if cell is None else str(cell) for cell in row[-3:]) for row in rows)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
