"""The brokers of a cluster in a table with a legend, or as JSON: `ottla cluster status` and `ottla cluster up`."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import NamedTuple

from ottla.client.admin.loads import NOTHING, Load
from ottla.client.admin.overview import ClusterOverview, Share

SERVING, GONE = "serving", "gone"
NOBODY = "no broker answers"
LEGEND = (
    "* the caretaker: it declares brokers gone and has leaders elected",
    "LEADS: partitions. IN SYNC: replicas, of those on the broker. LAG: records that its replicas lack of their "
    "leaders' (+: or more; a leader has not heard of one yet).",
    "IN/S, OUT/S: bytes a second produced, and read by consumers and followers. DISK: bytes of its logs "
    "(K is 1024, M is 1024 K).",
)
_BOLD, _DIM, _RED, _END = "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[0m"
_UNITS = "KMGTPE"
_WORDS = ("STATE", "ADDRESS", "RACK")
"""Columns to the left; numbers go to the right."""
_LEFT_OUT_FIRST = ("PID", "RACK", "ADDRESS")
_GAP = "  "


class BrokerLine(NamedTuple):
    """One broker; unknown values are None."""

    broker: int
    state: str
    address: str | None
    share: Share | None
    load: Load = NOTHING
    caretaker: bool = False
    pid: int | None = None
    rack: str | None = None


class _Cell(NamedTuple):
    text: str
    colour: str = ""


def table(
    lines: Sequence[BrokerLine],
    seen: ClusterOverview | None,
    *,
    width: int | None = None,
    coloured: bool = False,
    legend: bool = True,
) -> list[str]:
    """Aligned columns under titles, the summary, the legend; columns are left out where `width` is too little."""
    columns = _columns(lines)
    widths = {title: max(len(title), *(len(cell.text) for cell in cells)) for title, cells in columns.items()}
    _leave_out(widths, width)

    def row(cells: Sequence[_Cell]) -> str:
        padded = []
        for (title, wide), cell in zip(widths.items(), cells, strict=True):
            text = cell.text.ljust(wide) if title in _WORDS else cell.text.rjust(wide)
            padded.append(_painted(text, cell.colour, coloured=coloured))
        return _GAP.join(padded).rstrip()

    kept = [columns[title] for title in widths]
    out = [_painted(row([_Cell(title) for title in widths]), _BOLD, coloured=coloured)]
    out += [row([cells[at] for cells in kept]) for at in range(len(lines))]
    healthy = seen is not None and not seen.leaderless and not seen.under_replicated
    summary = NOBODY if seen is None else seen.summary
    out += [_painted(text, "" if healthy else _RED, coloured=coloured) for text in _wrapped(summary, width)]
    explained = [text for about in LEGEND for text in _wrapped(about, width)] if legend else []
    return out + [_painted(text, _DIM, coloured=coloured) for text in explained]


def _columns(lines: Sequence[BrokerLine]) -> dict[str, list[_Cell]]:
    columns = {
        "BROKER": [_Cell(f"{'* ' if line.caretaker else ''}{line.broker}") for line in lines],
        "STATE": [_Cell(line.state, "" if line.state == SERVING else _RED) for line in lines],
        "ADDRESS": [_Cell(line.address or "-") for line in lines],
        "PID": [_Cell(str(line.pid or "-")) for line in lines],
        "RACK": [_Cell(line.rack or "-") for line in lines],
        "LEADS": [_Cell("-" if line.share is None else str(line.share.leads)) for line in lines],
        "IN SYNC": [_in_sync(line.share) for line in lines],
        "LAG": [_Cell(_lag(line.load)) for line in lines],
        "IN/S": [_Cell(amount(line.load.bytes_in_per_s)) for line in lines],
        "OUT/S": [_Cell(amount(line.load.bytes_out_per_s)) for line in lines],
        "DISK": [_Cell(amount(line.load.disk_bytes)) for line in lines],
    }
    if all(line.pid is None for line in lines):
        del columns["PID"]
    if all(line.rack is None for line in lines):
        del columns["RACK"]
    return columns


def _leave_out(widths: dict[str, int], width: int | None) -> None:
    """Drop the least important columns first, then from the right: a wrapped line would break a table on a terminal."""
    for title in (*_LEFT_OUT_FIRST, *reversed(list(widths)[1:])):
        if width is None or sum(widths.values()) + len(_GAP) * (len(widths) - 1) <= width:
            return
        widths.pop(title, None)


def _in_sync(share: Share | None) -> _Cell:
    if share is None:
        return _Cell("-")
    return _Cell(f"{share.in_sync}/{share.replicas}", _RED if share.in_sync < share.replicas else "")


def _lag(load: Load) -> str:
    return "-" if load.lag is None else f"{load.lag}{'+' if load.lag_may_be_more else ''}"


def amount(number: float | None) -> str:
    """Bytes as `du -h` writes them."""
    if number is None:
        return "-"
    unit = ""
    for unit_above in _UNITS:
        if round(number) < 1024:
            break
        number, unit = number / 1024, unit_above
    return f"{number:.1f}{unit}" if unit and number < 9.95 else f"{number:.0f}{unit}"


def _wrapped(text: str, width: int | None) -> list[str]:
    return textwrap.wrap(text, width, subsequent_indent=_GAP) if width is not None and width > 20 else [text]


def _painted(text: str, colour: str, *, coloured: bool) -> str:
    return f"{colour}{text}{_END}" if coloured and colour else text


def as_json(lines: Sequence[BrokerLine], seen: ClusterOverview | None) -> dict[str, object]:
    """The same for machines: bytes and records as whole numbers, rates by the second."""
    return {
        "cluster_id": None if seen is None else seen.cluster_id,
        "caretaker": None if seen is None else seen.caretaker,
        "brokers": [_broker_json(line) for line in lines],
        "topics": None if seen is None else seen.topics,
        "partitions": None if seen is None else seen.partitions,
        "under_replicated": None if seen is None else seen.under_replicated,
        "leaderless": None if seen is None else seen.leaderless,
    }


def _broker_json(line: BrokerLine) -> dict[str, object]:
    host, _, port = (line.address or "").rpartition(":")
    share = line.share
    told: dict[str, object] = {
        "id": line.broker,
        "state": line.state,
        "address": line.address,
        "host": host or None,
        "port": int(port) if port else None,
        "rack": line.rack,
    }
    if line.pid is not None:
        told["pid"] = line.pid
    return told | {
        "leads": None if share is None else share.leads,
        "in_sync": None if share is None else share.in_sync,
        "replicas": None if share is None else share.replicas,
        "lag": line.load.lag,
        "lag_may_be_more": line.load.lag_may_be_more,
        "bytes_in_per_s": None if line.load.bytes_in_per_s is None else round(line.load.bytes_in_per_s),
        "bytes_out_per_s": None if line.load.bytes_out_per_s is None else round(line.load.bytes_out_per_s),
        "disk_bytes": line.load.disk_bytes,
        "free_bytes": line.load.free_bytes,
    }
