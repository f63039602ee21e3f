"""`python -m ottla.demo` (`make demo`): runs flights.yaml, then proves the lake and draws a picture."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path

import pandas as pd

from ottla.demo import flights, lake, page, picture, running
from ottla.demo.delays import Delays
from ottla.demo.lake import Audit
from ottla.demo.measured import ANSWER, DELAYS, EVENTS, DemoSpeed
from ottla.demo.page import Ran
from ottla.demo.terminal import Steps, delays_table

FOLDER = Path("ottla-demo")


def main() -> int:
    """Tell the tale; 1 where a row is missing."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    steps, load = Steps(), Stopwatch()

    def say(line: str) -> None:
        load.hear(line)
        if not line.startswith("broker            "):  # its hints for the first steps
            steps.say(line)

    print(f"$ ottla pipeline run {FOLDER}/{running.FILE.name}", flush=True)
    code, _ = running.run_pipeline(FOLDER, say)
    if code:
        print(f"FAILED: the pipeline ended with exit status {code}; {FOLDER} is as it left it", file=sys.stderr)
        return 1
    topics = flights.all_events()
    audits = [lake.audit(events, FOLDER / "lake") for events in topics]
    for audit in audits:
        steps.say(verdict(audit))
    events, query = DemoSpeed.read(FOLDER / EVENTS), DemoSpeed.read(FOLDER / DELAYS)
    ran = Ran(
        str(FOLDER),
        tuple(each.topic for each in topics),
        events.rows,
        events.rows / events.seconds,
        sum(audit.in_lake for audit in audits),
        load.seconds,
        query.rows,
        query.seconds,
    )
    return told(steps, Delays(pd.read_parquet(FOLDER / ANSWER)), audits, ran)


class Stopwatch:
    """The seconds of the load, by the lines of the run."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._began = time.monotonic()

    def hear(self, line: str) -> None:
        """Take the next line."""
        if line.startswith("lake months") and line.endswith("running"):
            self._began = time.monotonic()
        elif line.startswith("lake months"):
            self.seconds = time.monotonic() - self._began


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
    print(f"pipeline  {FOLDER.resolve()}/{running.FILE.name}; the page shows it, and says what to type next")
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
