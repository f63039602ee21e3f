"""`python -m ottla.demo` (`make demo`): flights into topics, a lake, a streaming query, a picture; a few minutes."""

from __future__ import annotations

import os
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from ottla.demo import flights, lake, page, picture, produce, query, running
from ottla.demo.delays import Delays
from ottla.demo.flights import Events
from ottla.demo.lake import Audit
from ottla.demo.page import Ran
from ottla.demo.terminal import Steps, delays_table
from ottla.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER = Path("ottla-demo")


def main() -> int:
    """Tell the tale; 1 where a row is missing."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    steps = Steps()
    with ThreadPoolExecutor(2) as beside, running.broker(FOLDER / "broker") as address:
        # Starting Spark takes seconds and needs nothing from the steps before it.
        waking = beside.submit(spark_session)
        steps.say(f"a broker answers at {address}, its data in {FOLDER}/broker")
        topics = flights.all_events()
        produce.create_topics(address, topics)
        rate = produce.produce(address, topics)
        count = sum(len(events.values) for events in topics)
        steps.say(f"{count:,} events in {len(topics)} topics, every one acknowledged: {rate:,.0f} a second")
        spark = waking.result()
        steps.say("Spark is up: the loader and the query run side by side")
        in_lake = beside.submit(loaded, steps, spark, address, topics)
        answer, streamed_rows, query_s = streamed(steps, spark, address, topics)
        audits, rows, load_s = in_lake.result()
    names = tuple(events.topic for events in topics)
    ran = Ran(str(FOLDER), names, count, rate, rows, load_s, streamed_rows, query_s)
    return told(steps, Delays(answer), audits, ran)


def spark_session() -> SparkSession:
    """Run four tasks at once, since the loader's mostly wait for the disk. Spark's own output goes to a file."""
    terminal = os.dup(sys.stderr.fileno())
    with (FOLDER / "spark.log").open("wb") as log:
        os.dup2(log.fileno(), sys.stderr.fileno())
    try:
        return open_session()
    finally:
        os.dup2(terminal, sys.stderr.fileno())
        os.close(terminal)


def open_session() -> SparkSession:
    tasks = max(4, os.cpu_count() or 1)
    return session("ottla demo", f"local[{tasks}]", spark__sql__shuffle__partitions="2")


def loaded(steps: Steps, spark: SparkSession, address: str, topics: list[Events]) -> tuple[list[Audit], int, float]:
    """Fill the lake, then compare it with the files; also the rows and seconds of the load."""
    begin = time.monotonic()
    rows = lake.load(spark, address, topics, FOLDER / "lake", steps.progress)
    seconds = time.monotonic() - begin
    steps.say(f"{rows:,} rows are in a Parquet lake: {FOLDER}/lake")
    audits = [lake.audit(events, FOLDER / "lake") for events in topics]
    for audit in audits:
        steps.say(verdict(audit))
    return audits, rows, seconds


def streamed(steps: Steps, spark: SparkSession, address: str, topics: list[Events]) -> tuple[pd.DataFrame, int, float]:
    """Run the query, saying how far it is; its answer, the flights that it read and its seconds."""
    begin = time.monotonic()
    total = len(topics[-1].rows)
    seen = 0

    def progress(rows: int, rows_per_second: float) -> None:
        nonlocal seen
        seen += rows
        steps.progress(f"streaming: {seen:,} of {total:,} flights, {rows_per_second:,.0f} a second")

    by_name = {events.topic: events for events in topics}
    answer = query.run(spark, address, by_name, str(FOLDER / "checkpoint"), progress)
    steps.say(f"a streaming query joined {seen:,} flights with weather and airlines as they came")
    return answer, seen, time.monotonic() - begin


def verdict(audit: Audit) -> str:
    """One topic's line."""
    if audit.whole:
        return f"{audit.topic}: {audit.in_lake:,} rows in the lake, as in the CSV; checksum {audit.checksum_of_lake}"
    return (
        f"{audit.topic}: NOT WHOLE: {audit.in_file:,} rows in the CSV (checksum {audit.checksum_of_file}), "
        f"{audit.in_lake:,} in the lake (checksum {audit.checksum_of_lake})"
    )


def told(steps: Steps, delays: Delays, audits: list[Audit], ran: Ran) -> int:
    """Draw the picture, write the page, print the table and where everything is; the exit status."""
    png, html = FOLDER / "delays.png", FOLDER / "index.html"
    picture.draw(delays, png)
    page.write(delays, audits, ran, png, html)
    print(f"\n{delays_table(delays)}\n\n{delays.finding()}.\n")
    print(f"picture   {png.resolve()}\npage      {html.resolve()}")
    print(f"lake      {FOLDER.resolve()}/lake\ntopics    {FOLDER.resolve()}/broker")
    print(f"again     ottla start --data {FOLDER}/broker; the page says what to type next")
    steps.say("done")
    wrong = [audit.topic for audit in audits if not audit.whole]
    scheduled = {audit.topic: audit.in_file for audit in audits}["flights"]
    counted = int(delays.answer["flights"].sum())
    if wrong or counted != scheduled:
        print(f"FAILED: differing in the lake: {wrong}; flights counted {counted:,} of {scheduled:,}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
