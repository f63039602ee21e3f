"""The table of a cluster's brokers: aligned, explained, no wider than a terminal, coloured on request."""

from __future__ import annotations

import json
import re

from ottla.client.admin.broker_table import LEGEND, NOBODY, BrokerLine, as_json, table
from ottla.client.admin.loads import Load
from ottla.client.admin.overview import Share, overview_of
from ottla.client.model import Broker, PartitionView

SEEN = overview_of("c", 2, {2: Broker(2, "h", 9)}, [[PartitionView(0, 2, 3, (1, 2), (2,), (1,))]])
LOAD = Load(0, False, 0, 1536, 5_000_000, 10)
LINES = [
    BrokerLine(1, "gone", None, Share(0, 1, 0), Load(12345, True)),
    BrokerLine(2, "serving", "host:9", Share(1, 1, 1), LOAD, caretaker=True, pid=77),
]


def test_columns_are_aligned_and_the_marks_explained():
    assert table(LINES, SEEN) == [
        "BROKER  STATE    ADDRESS  PID  LEADS  IN SYNC     LAG  IN/S  OUT/S  DISK",
        "     1  gone     -          -      0      0/1  12345+     -      -     -",
        "   * 2  serving  host:9    77      1      1/1       0     0   1.5K  4.8M",
        "1 topic, 1 partition, 1 under-replicated",
        *LEGEND,
    ]
    marks = " ".join(LEGEND)
    assert all(f"{title}:" in marks or f"{title}," in marks for title in ("LEADS", "LAG", "IN/S", "OUT/S", "DISK"))
    assert "* the caretaker" in marks


def test_nothing_is_known_where_nobody_answers():
    lines = table([BrokerLine(1, "starting", None, None)], None)
    assert lines[:3] == [
        "BROKER  STATE     ADDRESS  LEADS  IN SYNC  LAG  IN/S  OUT/S  DISK",
        "     1  starting  -            -        -    -     -      -     -",
        NOBODY,
    ]
    assert as_json([], None)["caretaker"] is None


def test_no_line_is_wider_than_the_terminal():
    for width in (120, 80, 60, 40, 20):
        lines = table(LINES, SEEN, width=width)
        narrow = lines if width > 20 else lines[:3]
        assert max(map(len, narrow)) <= width
        assert lines[2].lstrip().startswith("* 2  serving"[: width - 6])
    assert "PID" not in table(LINES, SEEN, width=70)[0]


def test_colours_change_nothing_but_the_colour():
    plain, coloured = table(LINES, SEEN), table(LINES, SEEN, coloured=True)
    assert [re.sub(r"\x1b\[\d+m", "", line) for line in coloured] == plain
    assert "\x1b[31mgone" in coloured[1]
    assert "\x1b" not in coloured[2]
    assert "\x1b" not in "".join(plain)


def test_machines_are_told_numbers():
    told = json.loads(json.dumps(as_json(LINES, SEEN)))
    assert (told["caretaker"], told["under_replicated"]) == (2, 1)
    gone, serving = told["brokers"]
    assert (gone["address"], gone["host"], gone["port"], gone["lag"], gone["lag_may_be_more"]) == (
        None, None, None, 12345, True,
    )  # fmt: skip
    assert "pid" not in gone
    assert (serving["pid"], serving["port"], serving["bytes_out_per_s"], serving["disk_bytes"]) == (
        77, 9, 1536, 5_000_000,
    )  # fmt: skip
