"""`python -m tests.examples.mail_campaign`: the mail directory of examples/ with many messages, its parts killed.

Messages with a Word, Excel, CSV or text attachment each are dropped into the inbox piece by piece. Amid each piece the
application that parses them, or the worker that reads them, is killed and started again. In the end each part of each
message is in `mail-text` with its own text, each alert is there, and the inbox is empty.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.examples.messages import LETTER, ROWS, SHEET, mail, packed
from tests.lake.campaign.processes import BrokerProcess, until
from tests.ports import free_port

from ottla.client import Admin, Consumer, TopicPartition
from ottla.client.admin.admin import NewTopic

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "mail_directory"
TOPICS = ("mail", "mail-text", "mail-alerts")
PATIENCE_S = 1800.0


def message(number: int) -> tuple[bytes, str]:
    """A message and the text of its attachment; every tenth sets off an alert."""
    word = f"bird {number}" + (" is overdue" if number % 10 == 0 else "")
    kind = number % 4
    if kind == 0:
        letter = LETTER.replace("The bill is ", word).replace("overdue.", ".")
        return mail(number, a_docx=packed(word__document_xml=letter)), f"{word}.\n"
    if kind == 1:
        strings = f'<sst xmlns="{SHEET}"><si><t>{word}</t></si></sst>'
        return mail(number, a_xlsx=packed(xl__sharedStrings_xml=strings, xl__worksheets__sheet1_xml=ROWS)), word
    if kind == 2:
        return mail(number, a_csv=f"{word},x\n".encode()), f"{word} x"
    return mail(number, a_txt=word.encode()), word


class Program:
    """A command of ottla in the folder, which is started again after a kill."""

    def __init__(self, folder: Path, name: str, *words: str) -> None:
        self._words, self._folder = [sys.executable, "-m", "ottla", *words], folder
        self._log = folder / f"{name}.log"
        self.start()

    def start(self) -> None:
        environment = os.environ | {"CLAIM_STORE": str(self._folder / "claims")}
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(self._words, stdout=log, stderr=log, cwd=self._folder, env=environment)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class Mail:
    """The topics as their readers see them."""

    def __init__(self, bootstrap: str) -> None:
        self._consumer = Consumer(bootstrap, isolation_level="read_committed", auto_offset_reset="earliest",
                                  max_poll_records=5_000)  # fmt: skip
        self._consumer.assign([TopicPartition(each, 0) for each in TOPICS])
        self.texts: dict[str, str] = {}
        self.counts: Counter[str] = Counter()
        self.alerts: set[str] = set()

    def read(self) -> int:
        """Take some of what has come; the number of parts with a text."""
        for each in self._consumer.poll(200):
            self.counts[each.topic] += 1
            key = (each.key or b"").decode()
            if each.topic == "mail-text":
                self.texts[key] = json.loads(each.value or b"{}")["text"]
            elif each.topic == "mail-alerts":
                self.alerts.add(key)
        return len(self.texts)

    def close(self) -> None:
        self._consumer.close()


@contextlib.contextmanager
def running(folder: Path) -> Iterator[tuple[Mail, dict[str, Program]]]:
    """A broker with the topics, the worker and the application."""
    shutil.copytree(EXAMPLE, folder / "example")
    broker = BrokerProcess(folder, free_port())
    with Admin(broker.bootstrap) as admin:
        admin.create_topics([NewTopic(each, 1) for each in TOPICS])
    (folder / "inbox").mkdir()
    worker = (EXAMPLE / "worker.properties").read_text().replace("localhost:9092", broker.bootstrap)
    (folder / "worker.properties").write_text(worker)
    programs = {
        "worker": Program(folder, "worker", "connect", "start", "worker.properties", "example/source.properties"),
        "parser": Program(folder, "parser", "streams", "run", "example/app.py", "--application-id", "mail-1",
                          "-b", broker.bootstrap),
    }  # fmt: skip
    found = Mail(broker.bootstrap)
    try:
        yield found, programs
    finally:
        found.close()
        for each in programs.values():
            each.kill()
        broker.kill()


def campaign(folder: Path, *, messages: int, kills: int) -> list[str]:
    """Drop the messages with kills amid them; the differences."""
    wanted: dict[str, str] = {}
    began, size = time.monotonic(), -(-messages // (kills + 1))
    with running(folder) as (found, programs):
        for piece in range(kills + 1):
            before = found.read()
            for number in range(piece * size, min(messages, (piece + 1) * size)):
                content, text = message(number)
                hidden = folder / "inbox" / f".{number}"
                hidden.write_bytes(content)
                hidden.rename(folder / "inbox" / f"{number:08d}.eml")
                wanted |= {f"<{number}@x>/0": "see the attachment\n", f"<{number}@x>/1": text}
            if piece < kills:
                until(lambda before=before: found.read() > before, "texts of a piece", PATIENCE_S)
                victim = programs["worker" if piece % 3 == 2 else "parser"]
                victim.kill()
                victim.start()
                print(f"{time.monotonic() - began:.0f} s: killed {'worker' if piece % 3 == 2 else 'parser'} with "
                      f"{len(found.texts):,} texts of {len(wanted):,}", flush=True)  # fmt: skip
        until(lambda: found.read() >= len(wanted), "all texts", PATIENCE_S)
        until(lambda: not any((folder / "inbox").iterdir()), "an empty inbox", PATIENCE_S)
        print(f"{time.monotonic() - began:.0f} s; records in the topics: {dict(found.counts)}", flush=True)
    return differences(wanted, found)


def differences(wanted: dict[str, str], found: Mail) -> list[str]:
    """Parts that are missing, strange or have another text, and alerts that are not those of the texts."""
    missing, strange = wanted.keys() - found.texts.keys(), found.texts.keys() - wanted.keys()
    other = {key for key in wanted.keys() & found.texts.keys() if not found.texts[key].startswith(wanted[key])}
    alerts = {key for key, text in wanted.items() if "overdue" in text} ^ found.alerts
    told = (("missing", missing), ("strange", strange), ("of another text", other), ("alerts that differ", alerts))
    return [f"{len(some):,} parts are {what}, such as {sorted(some)[:3]}" for what, some in told if some]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.examples.mail_campaign", description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=9, help="of the parser, every third of the worker")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mail-campaign-") as made:
        found = campaign(Path(made), messages=options.messages, kills=options.kills)
    print("\n".join(found) or "no differences")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
