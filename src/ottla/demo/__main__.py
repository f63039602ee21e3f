"""`python -m ottla.demo` (`make demo`): flights into topics, a lake, a streaming query, a picture; about a minute."""

from __future__ import annotations

import shutil
import sys
import threading
from pathlib import Path

import pandas as pd

from ottla.demo import flights, lake, page, picture, produce, query, running
from ottla.demo.delays import Delays
from ottla.demo.terminal import Steps, delays_table
from ottla.spark.session import session

FOLDER = Path("ottla-demo")


def main() -> int:
    """Tell the tale; 1 where a row is missing."""
    steps = Steps()
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    # Starting Spark takes seconds and needs nothing from the steps before it.
    waking = threading.Thread(target=session, args=("ottla demo",), daemon=True)
    waking.start()
    with running.broker(FOLDER / "broker") as address:
        steps.say(f"a broker answers at {address}, its data in {FOLDER}/broker")
        topics = flights.all_events()
        produce.create_topics(address, topics)
        rate = produce.produce(address, topics)
        count = sum(len(events.values) for events in topics)
        steps.say(f"{count:,} events in {len(topics)} topics, every one acknowledged: {rate:,.0f} a second")
        waking.join()
        loaded = lake.load(session("ottla demo"), address, topics, FOLDER / "lake", steps.progress)
        steps.say(f"{loaded:,} rows are in a Parquet lake: {FOLDER}/lake")
        answer = streamed(steps, address, topics)
    audits = [lake.audit(events, FOLDER / "lake") for events in topics]
    for audit in audits:
        steps.say(told(audit))
    delays = Delays(answer)
    counted = int(answer["flights"].sum())
    picture.draw(delays, FOLDER / "delays.png")
    page.write(delays, audits, {"produced": f"{rate:,.0f} events/s"}, FOLDER / "delays.png", FOLDER / "index.html")
    print(f"\n{delays_table(delays)}\n\n{delays.finding()}.\n")
    print(f"picture   {FOLDER.resolve()}/delays.png\npage      {FOLDER.resolve()}/index.html")
    print(f"lake      {FOLDER.resolve()}/lake\ntopics    {FOLDER.resolve()}/broker")
    steps.say("done")
    wrong = [audit.topic for audit in audits if not audit.whole]
    if wrong or counted != len(topics[-1].rows):
        print(f"FAILED: rows differ in the lake of {wrong}; the query counted {counted:,} flights", file=sys.stderr)
        return 1
    return 0


def streamed(steps: Steps, address: str, topics: list[flights.Events]) -> pd.DataFrame:
    """Run the query, saying how far it is."""
    total = len(topics[-1].rows)
    seen = 0

    def progress(rows: int, rows_per_second: float) -> None:
        nonlocal seen
        seen += rows
        steps.progress(f"streaming: {seen:,} of {total:,} flights, {rows_per_second:,.0f} a second")

    by_name = {events.topic: events for events in topics}
    answer = query.run(session("ottla demo"), address, by_name, str(FOLDER / "checkpoint"), progress)
    steps.say(f"a streaming query joined {seen:,} flights with weather and airlines as they came")
    return answer


def told(audit: lake.Audit) -> str:
    """One topic's line."""
    if audit.whole:
        return f"{audit.topic}: {audit.in_lake:,} rows in the lake, as in the CSV; checksum {audit.checksum_of_lake}"
    return (
        f"{audit.topic}: NOT WHOLE: {audit.in_file:,} rows in the CSV (checksum {audit.checksum_of_file}), "
        f"{audit.in_lake:,} in the lake (checksum {audit.checksum_of_lake})"
    )


if __name__ == "__main__":
    sys.exit(main())
