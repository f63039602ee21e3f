"""Counts the records of each site, window by window, and those that have arrived at the cluster that has all.

python examples/two_sites/audit.py            prints the counts; the exit status is 1 where they differ
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from ottla.client import ClientError, Cluster, Consumer, TopicPartition
from ottla.client.model import LATEST

SITES = {"paris": "localhost:19101", "tokyo": "localhost:19102"}
TOPIC = "page-views"
HOUR = 3_600_000
_WITHIN_MS = 5_000
_SHOWN = 4


class Tiers(NamedTuple):
    """Records by the start of their window, in milliseconds since 1970."""

    written: Counter[int]
    """At the site."""
    arrived: Counter[int]
    """At the cluster that has all."""

    def missing(self) -> int:
        return (self.written - self.arrived).total()

    def doubled(self) -> int:
        return (self.arrived - self.written).total()

    def verdict(self) -> str:
        """`complete`, or by how many records the two differ."""
        parts = {"missing": self.missing(), "too many": self.doubled()}
        return ", ".join(f"{count:,} {what}" for what, count in parts.items() if count) or "complete"


def counted(bootstrap: str, topic: str, window_ms: int) -> Counter[int]:
    """The records that the topic has now, by the window of their event time."""
    counts: Counter[int] = Counter()
    with Cluster(bootstrap, api_timeout_ms=_WITHIN_MS) as cluster:
        if topic not in cluster.topics():
            return counts
        ends = {each: at.offset for each, at in cluster.list_offsets(cluster.partitions(topic), LATEST).items()}
    with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign(ends)
        while any(consumer.position(each) < end for each, end in ends.items()):
            for record in consumer.poll(timeout_ms=1_000):
                if record.offset < ends[TopicPartition(record.topic, record.partition)]:
                    counts[record.timestamp - record.timestamp % window_ms] += 1
    return counts


def audit(site: str, where: str, everything: str) -> Tiers:
    """The counts of a site beside those of its mirror. The mirror is counted first: it may only be behind."""
    arrived = counted(everything, f"{site}.{TOPIC}", HOUR)
    return Tiers(counted(where, TOPIC, HOUR), arrived)


def picture(found: Mapping[str, Tiers]) -> str:
    """A row of bars for each site: what was written as outlines, what has arrived in them."""
    windows = sorted({each for tiers in found.values() for each in tiers.written | tiers.arrived})
    first, most = windows[0], max(max((tiers.written | tiers.arrived).values(), default=1) for tiers in found.values())
    width = 560 / ((windows[-1] - first) // HOUR + 1)
    shapes = []
    for row, (site, tiers) in enumerate(found.items()):
        base = 130 + 120 * row
        shapes.append(f'<text x="20" y="{base - 96}">{site}: {tiers.verdict()}</text>')
        for window in windows:
            x = 20 + (window - first) // HOUR * width
            for kind, count in (("arrived", tiers.arrived[window]), ("written", tiers.written[window])):
                height = 85 * count / most
                shapes.append(f'<path class="{kind}" d="M{x:.1f} {base}v{-height:.1f}h{width:.1f}v{height:.1f}"/>')
    begin, end = (time.strftime("%d %b %Y %H:%M", time.gmtime(each / 1000)) for each in (first, windows[-1]))
    bottom = 30 + 120 * len(found)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 600 {bottom + 20}"><style>text {{ font: 12px system-ui, '
        "sans-serif; fill: #656d76; } .page { fill: #fff; } .arrived { fill: #2b74b3; } .written { fill: none; stroke: "
        f'#d1495b; stroke-width: .7; }}</style><rect class="page" width="600" height="{bottom + 20}"/>'
        f'<text x="20" y="18">records an hour: outlined those of the site, filled those that arrived</text>'
        f'{"".join(shapes)}<text x="20" y="{bottom + 12}">{begin}</text>'
        f'<text x="580" y="{bottom + 12}" text-anchor="end">{end}</text></svg>\n'
    )


def lines(site: str, tiers: Tiers) -> Iterator[str]:
    """The lines for a site: its counts, and the first hours in which they differ."""
    yield (f"{site:6} {len(tiers.written):>9} hours {tiers.written.total():>8,} written {tiers.arrived.total():>8,} "
           f"arrived: {tiers.verdict()}")  # fmt: skip
    differ = [each for each in sorted(tiers.written | tiers.arrived) if tiers.written[each] != tiers.arrived[each]]
    for window in differ[:_SHOWN]:
        at = time.strftime("%Y-%m-%d %H:%M", time.gmtime(window / 1000))
        yield f"      {at} {tiers.written[window]:>8,} written {tiers.arrived[window]:>8,} arrived"
    if len(differ) > _SHOWN:
        yield f"      and {len(differ) - _SHOWN} more hours"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", default="localhost:19103", help="the cluster that has all")
    parser.add_argument("--picture", type=Path, help="write a picture of the counts there")
    given = parser.parse_args()
    found: dict[str, Tiers] = {}
    for site, where in SITES.items():
        try:
            found[site] = audit(site, where, given.all)
        except ClientError as fault:
            print(f"{site:6} cannot be counted: {fault}")
        else:
            print("\n".join(lines(site, found[site])))
    if given.picture and found:
        given.picture.write_text(picture(found))
    return 0 if [tiers.verdict() for tiers in found.values()] == ["complete"] * len(SITES) else 1


if __name__ == "__main__":
    sys.exit(main())
