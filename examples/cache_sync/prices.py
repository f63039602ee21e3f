"""Prices in a compacted topic, kept as a dict by any number of processes: a cache that is never asked to expire.

python examples/cache_sync/prices.py write     changes prices, 500 a second
python examples/cache_sync/prices.py read      keeps the dict, and shows how old it is
python examples/cache_sync/prices.py measure   three readers and a writer, and a picture of the staleness
"""

from __future__ import annotations

import argparse
import json
import multiprocessing as mp
import random
import statistics
import time
from collections.abc import Iterable
from pathlib import Path

from ottla.client import Admin, ApiError, ErrorCode, Producer, TopicTable

TOPIC = "prices"
ARTICLES = [f"article-{number}" for number in range(200)]


def prepare(bootstrap: str) -> None:
    """Make the topic where it does not exist."""
    with Admin(bootstrap) as admin:
        try:
            admin.create_topic(TOPIC, 3, configs={"cleanup.policy": "compact"})
        except ApiError as fault:
            if fault.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise


def table(bootstrap: str, **options: object) -> TopicTable[str, dict[str, float]]:
    """The cache: article to {"price": …, "changed": seconds since 1970}."""
    return TopicTable(TOPIC, bootstrap, key=bytes.decode, value=json.loads, **options)


def write(bootstrap: str, changes: int, *, a_second: int = 500) -> dict[str, dict[str, float]]:
    """Change prices one by one; every hundredth change takes an article off the list. The prices at the end."""
    wheel, prices = random.Random(7), {}
    begun = time.monotonic()
    with Producer(bootstrap, linger_ms=0) as producer:
        for number in range(changes):
            time.sleep(max(0.0, begun + number / a_second - time.monotonic()))
            article = wheel.choice(ARTICLES)
            if number % 100 == 99:
                prices.pop(article, None)
                producer.produce(TOPIC, None, article)
                continue
            prices[article] = {"price": wheel.randrange(100, 10_000) / 100, "changed": time.time()}
            producer.produce(TOPIC, json.dumps(prices[article]), article)
    return prices


def read(bootstrap: str) -> None:
    """Keep the cache and show it once a second."""
    with table(bootstrap) as prices:
        prices.wait_until_caught_up()
        while True:
            print(f"{len(prices)} prices, lag {prices.lag()}, the newest took {prices.delay_ms} ms", flush=True)
            time.sleep(1)


def _reader(bootstrap: str, ready: mp.Barrier, done: mp.Event, answers: mp.Queue) -> None:
    delays: list[float] = []

    def took(_article: str, row: dict[str, float] | None) -> None:
        if row is not None:
            delays.append((time.time() - row["changed"]) * 1000)

    with table(bootstrap, on_change=took) as prices:
        prices.wait_until_caught_up(60)
        delays.clear()
        ready.wait(60)
        done.wait()
        begun = time.perf_counter()
        prices.wait_until_caught_up(60)
        answers.put((prices.snapshot(), delays, (time.perf_counter() - begun) * 1000))


def measure(
    bootstrap: str, changes: int, readers: int = 3
) -> list[tuple[dict[str, dict[str, float]], list[float], float]]:
    """Let processes follow a writer; each one's dict, its delays, and the milliseconds until it had caught up."""
    prepare(bootstrap)
    context = mp.get_context("spawn")
    ready, done, answers = context.Barrier(readers + 1), context.Event(), context.Queue()
    started = [context.Process(target=_reader, args=(bootstrap, ready, done, answers)) for _ in range(readers)]
    for process in started:
        process.start()
    ready.wait(60)
    expected = write(bootstrap, changes)
    done.set()
    found = [answers.get(timeout=60) for _ in started]
    for process in started:
        process.join()
    for rows, _, _ in found:
        changed = {article: row for article, row in rows.items() if article in expected}
        assert changed == expected, "a cache differs from what was written"
    return found


def svg(delays: Iterable[float]) -> str:
    """The share of changes by the milliseconds that they took to arrive: a line from 0 to 100 percent."""
    ordered = sorted(delays)
    most = ordered[int(len(ordered) * 0.995)]
    points = [(60 + 500 * min(d, most) / most, 250 - 220 * at / len(ordered)) for at, d in enumerate(ordered)]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points[:: max(1, len(points) // 300)])
    ticks = "".join(
        f'<text x="{60 + 125 * n}" y="272" text-anchor="middle">{most * n / 4:.0f} ms</text>'
        f'<text x="50" y="{254 - 55 * n}" text-anchor="end">{25 * n} %</text>'
        f'<path class="grid" d="M60 {250 - 55 * n}H560"/>'
        for n in range(5)
    )
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 600 290"><style>text { font: 12px system-ui, sans-serif; '
        "fill: #656d76; } .grid { stroke: #d0d7de; stroke-width: .5; } polyline { fill: none; stroke: #2b74b3; "
        'stroke-width: 2.5; } .page { fill: #fff; }</style><rect class="page" width="600" height="290"/>'
        f'<text x="60" y="18">changes that had arrived in all caches, by the time since they were made</text>{ticks}'
        f'<polyline points="{line}"/></svg>\n'
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("do", choices=["write", "read", "measure"])
    parser.add_argument("--bootstrap", default="localhost:9092")
    parser.add_argument("--changes", type=int, default=5_000)
    parser.add_argument("--picture", type=Path, help="write the picture of `measure` there")
    given = parser.parse_args()
    prepare(given.bootstrap)
    if given.do == "write":
        print(f"{len(write(given.bootstrap, given.changes))} articles have a price")
    elif given.do == "read":
        read(given.bootstrap)
    else:
        found = measure(given.bootstrap, given.changes)
        for rows, delays, wait in found:
            middle, worst = statistics.median(delays), statistics.quantiles(delays, n=100)[98]
            print(f"{len(rows)} prices; staleness: median {middle:.1f} ms, 99 % within {worst:.1f} ms; "
                  f"caught up {wait:.1f} ms after the last change")  # fmt: skip
        if given.picture:
            given.picture.write_text(svg(delay for _, delays, _ in found for delay in delays))


if __name__ == "__main__":
    main()
