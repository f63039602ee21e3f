"""Makes the pictures of docs/pictures: `make pictures`.

Four are drawn here. The lake's is the page that `ottla lake picture` writes after the commands of
docs/guide/topic-to-table.md; the demo's is the one that `make demo` left behind. The console's needs Chromium
(`tools/setup.sh browser-if-possible`).
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"
GUIDE = ROOT / "docs" / "guide" / "topic-to-table.md"
DEMO = ROOT / "ottla-demo" / "delays.png"
MOST_BYTES = 60_000
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
STYLE = """
:root { color-scheme: light dark; --page: #ffffff; --ink: #1f2328; --quiet: #57606a; --box: #eef5fb; --line: #2b74b3; }
@media (prefers-color-scheme: dark) { :root { --page: #0f1419; --ink: #e6edf3; --quiet: #9aa4ae; --box: #17324a;
  --line: #4a97d1; } }
.page { fill: var(--page); } .box { fill: var(--box); stroke: var(--line); stroke-width: 1.5; }
text { font: 13px system-ui, sans-serif; fill: var(--quiet); } .title { font-weight: 600; font-size: 15px; fill: var(--ink); }
.arrow { fill: none; stroke: var(--line); stroke-width: 2; } .head { fill: var(--line); }
"""  # noqa: E501


@dataclass(frozen=True)
class Box:
    """A title over lines of text."""

    x: int
    y: int
    width: int
    height: int
    title: str
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Arrow:
    """A straight line with a head at its end, or at both."""

    start: tuple[int, int]
    end: tuple[int, int]
    both: bool = False


@dataclass(frozen=True)
class Note:
    """A line of text beside the boxes."""

    x: int
    y: int
    text: str


SYSTEM = (
    Box(20, 24, 220, 84, "Your programs", ("any Kafka client,", "or ottla's own for Python")),
    Box(20, 132, 220, 84, "Command line", ("ottla produce, consume, …", "Kafka's tools, without Java")),
    Box(20, 240, 220, 84, "Schema registry", ("Avro, JSON, Protobuf;", "its schemas are a topic too")),
    Box(300, 24, 220, 192, "Brokers", ("one, or several with replicas", "", "Topics lie in Kafka's files.",
        "A record is on disk before", "it is acknowledged.", "", "/metrics for Prometheus")),
    Box(300, 240, 220, 84, "Cluster's state", ("one machine: an SQLite file", "several machines: ZooKeeper")),
    Box(580, 24, 220, 84, "Spark", ("queries over topics, once or", "as they come; writes back")),
    Box(580, 132, 220, 84, "ottla lake load", ("each record exactly once,", "counted and audited")),
    Box(580, 240, 220, 84, "Your lake", ("Parquet, Delta, Iceberg", "on disks, S3, HDFS, …")),
    Arrow((240, 66), (300, 66), both=True),
    Arrow((240, 174), (300, 174), both=True),
    Arrow((240, 264), (300, 204), both=True),
    Arrow((410, 216), (410, 240), both=True),
    Arrow((520, 66), (580, 66), both=True),
    Arrow((520, 174), (580, 174)),
    Arrow((690, 216), (690, 240)),
)  # fmt: skip
LOAD = (
    Box(20, 24, 176, 118, "1 plan", ("plan-7.json names", "the offsets of the", "round.")),
    Box(221, 24, 176, 118, "2 attempt",
        ("Tasks write files in", "_ottla/tmp/7-1, where", "no reader looks, and", "sync them.")),
    Box(422, 24, 176, 118, "3 publication",
        ("publish-7.json names", "files and counts.", "The counts must", "add up.")),
    Box(623, 24, 176, 118, "4 commit",
        ("Files get their names,", "or a table one commit;", "then commit-7.json is", "written.")),
    Arrow((196, 83), (221, 83)),
    Arrow((397, 83), (422, 83)),
    Arrow((598, 83), (623, 83)),
    Arrow((208, 186), (208, 148)),
    Arrow((610, 186), (610, 148)),
    Note(20, 206, "Killed before the publication: nothing has"),
    Note(20, 224, "changed. The next load takes the same offsets."),
    Note(422, 206, "Killed after it: the round is carried through."),
    Note(422, 224, "The next load reveals the rest of the files."),
)  # fmt: skip
LOGS = (
    Box(20, 20, 200, 56, "rsyslog", ("over TCP, queue on disk",)),
    Box(20, 92, 200, 56, "fluent-bit", ("files, by OTLP",)),
    Box(20, 164, 200, 56, "Python's logging", ("KafkaHandler",)),
    Box(290, 20, 190, 128, "connectors", ("SyslogSource, OtlpSource", "answer or slow down", "their senders")),
    Box(550, 92, 110, 56, "topic logs", ("by host",)),
    Box(730, 20, 230, 200, "app.py", ("log-events: templates, fields", "log-counts: by the minute", "log-alerts",
                                      "log-arrivals: sent, arrived", "", "log-events to the lake")),
    Arrow((222, 48), (286, 48)),
    Arrow((222, 120), (286, 120)),
    Arrow((482, 120), (546, 120)),
    Arrow((222, 200), (600, 200)),
    Arrow((600, 200), (600, 152)),
    Arrow((662, 120), (726, 120)),
)  # fmt: skip
MAIL = (
    Box(20, 20, 200, 75, "inbox", ("messages with PDF,", "Word and Excel files")),
    Box(290, 20, 190, 75, "DirectorySource", ("format=mail", "claim.store=claims")),
    Box(550, 20, 150, 75, "topic mail", ("text, references",)),
    Box(550, 140, 150, 75, "store claims", ("contents by their", "SHA-256")),
    Box(770, 20, 210, 195, "app.py", ("redeems the references", "mail-text: text and tables", "mail-alerts", "search",
                                      "", "a better parser: again", "from the beginning")),
    Arrow((222, 57), (286, 57)),
    Arrow((482, 57), (546, 57)),
    Arrow((482, 90), (546, 160)),
    Arrow((702, 57), (766, 57)),
    Arrow((702, 177), (766, 177)),
)  # fmt: skip


def main() -> int:
    """Write the pictures; an argument names a single one."""
    made = {
        "system.svg": drawn_system, "load.svg": drawn_load, "logs.svg": drawn_logs, "mail.svg": drawn_mail,
        "lake.svg": lake, "demo.png": demo, "console.png": console,
    }  # fmt: skip
    wanted = sys.argv[1:] or [*made]
    if unknown := [name for name in wanted if name not in made]:
        sys.exit(f"there is no picture {unknown[0]}: choose from {', '.join(made)}")
    PICTURES.mkdir(exist_ok=True)
    for name in wanted:
        picture = made[name]()
        if len(picture) > MOST_BYTES:
            sys.exit(f"{name} has {len(picture):,} bytes: pictures are kept below {MOST_BYTES:,}")
        (PICTURES / name).write_bytes(picture)
        sys.stderr.write(f"wrote {name}, {len(picture):,} bytes\n")
    return 0


def drawn_system() -> bytes:
    """Everything that ottla is, and its neighbours."""
    return drawing("Programs, brokers, Spark and the lake", SYSTEM, 820, 348)


def drawn_load() -> bytes:
    """The four steps of a round of a load."""
    return drawing("A round of a load: plan, attempt, publication, commit", LOAD, 820, 244)


def drawn_logs() -> bytes:
    """The log aggregation of examples/."""
    return drawing("Log lines of many hosts become events, counts, alerts and arrivals", LOGS, 980, 240)


def drawn_mail() -> bytes:
    """The mail directory of examples/."""
    return drawing("Mail becomes text and tables; contents lie in a store", MAIL, 1000, 235)


def drawing(title: str, parts: Sequence[Box | Arrow | Note], width: int, height: int) -> bytes:
    """An SVG that can be read in light and in dark."""
    body = "\n".join(line for part in parts for line in _drawn(part))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n"
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="5" markerHeight="5" '
        'orient="auto-start-reverse"><path class="head" d="M0 0 L8 4 L0 8 z"/></marker></defs>\n'
        f'<rect class="page" width="{width}" height="{height}" rx="10"/>\n{body}\n</svg>\n'
    ).encode()


def _drawn(part: Box | Arrow | Note) -> Iterator[str]:
    match part:
        case Box(x, y, width, height, title, lines):
            yield f'<rect class="box" x="{x}" y="{y}" width="{width}" height="{height}" rx="8"/>'
            yield f'<text class="title" x="{x + 14}" y="{y + 27}">{escape(title)}</text>'
            for row, line in enumerate(lines):
                yield f'<text x="{x + 14}" y="{y + 49 + 19 * row}">{escape(line)}</text>'
        case Arrow((x1, y1), (x2, y2), both):
            start = ' marker-start="url(#head)"' if both else ""
            yield f'<path class="arrow" d="M{x1} {y1} L{x2} {y2}" marker-end="url(#head)"{start}/>'
        case Note(x, y, text):
            yield f'<text x="{x}" y="{y}">{escape(text)}</text>'


def lake() -> bytes:
    """The page of the lake that the guide makes, as a picture. It is shown as the browser shows the page."""
    from ottla.testing import TestBroker

    with tempfile.TemporaryDirectory() as folder, TestBroker() as broker:
        type_guide(Path(folder), broker.bootstrap_servers)
        page = (Path(folder) / "shop.html").read_text(encoding="utf-8").replace(f"file://{folder}/", "")
    return in_svg(page, 880, 300)


def in_svg(page: str, width: int, height: int) -> bytes:
    """An HTML page that needs nothing else as an SVG."""
    style, body = re.search(r"<style>(.*?)</style>.*<body>(.*)</body>", page, re.DOTALL).groups()  # type: ignore[union-attr]
    style = re.sub(r"^body\b", ".body", style, flags=re.MULTILINE)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">\n<style>{style}\n'
        ".body { margin: 0; padding: 1.2rem; height: 100%; box-sizing: border-box; border-radius: 10px; }</style>\n"
        '<foreignObject width="100%" height="100%"><div xmlns="http://www.w3.org/1999/xhtml" class="body">'
        f"{body.strip()}</div></foreignObject>\n</svg>\n"
    ).encode()


def type_guide(folder: Path, address: str) -> None:
    """Write the programs of the guide, and type its commands."""
    program = f'ottla() {{ "{sys.executable}" -m ottla "$@"; }}; python() {{ "{sys.executable}" "$@"; }}; '
    for language, block in BLOCK.findall(GUIDE.read_text(encoding="utf-8")):
        text = block.replace("localhost:9092", address)
        if language == "python":
            (folder / text.split()[1]).write_text(text, encoding="utf-8")
        commands = [line[2:] for line in text.splitlines() if line.startswith("$ ")] if not language else []
        for command in commands:
            if command == "ottla start":
                continue
            sys.stderr.write(f"{command}\n")
            subprocess.run(
                ["bash", "-c", program + command],
                cwd=folder,
                check=True,
                stdout=subprocess.DEVNULL,
                env={**os.environ, "OTTLA_BOOTSTRAP_SERVERS": address},
            )


def demo() -> bytes:
    """The demo's heat map in fewer pixels and colours."""
    from PIL import Image

    if not DEMO.exists():
        sys.exit(f"{DEMO.relative_to(ROOT)} is not there: run make demo first")
    with Image.open(DEMO) as picture:
        smaller = picture.convert("RGB").resize((1000, round(1000 * picture.height / picture.width)))
    return in_few_colours(smaller)


def console() -> bytes:
    """A search in the console, as Chromium shows it."""
    from PIL import Image

    from ottla.client import Producer
    from ottla.testing import TestBroker

    sys.path.append(str(ROOT / ".cache" / "browser"))
    from playwright.sync_api import sync_playwright

    with TestBroker() as broker, sync_playwright() as playwright:
        with Producer(broker.bootstrap_servers) as producer:
            for at in range(20_000):
                value = f'{{"order": {at}, "amount": {at * 37 % 500}, "customer": "{("anna", "bo", "cem")[at % 3]}"}}'
                producer.produce("orders", value, f"customer-{at % 700}", headers=[("trace", f"{at:06x}")])
        command = [sys.executable, "-m", "ottla", "console", "-b", broker.bootstrap_servers, "--port", "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
            assert running.stdout is not None
            url = running.stdout.readline().split(" ready: ")[1].split(" ")[0]
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1100, "height": 640})
            page.goto(f"{url}/messages?topic=orders&where=value.order+%3D+12345+or+value.order+%3D+777")
            page.get_by_text("All was looked at").wait_for()
            page.locator("#records summary").first.click()
            shot = page.screenshot()
            browser.close()
            running.terminate()
    with Image.open(io.BytesIO(shot)) as picture:
        return in_few_colours(picture.convert("RGB"))


def in_few_colours(picture: Image) -> bytes:
    """A picture as a small PNG."""
    written = io.BytesIO()
    picture.quantize(48).save(written, "PNG", optimize=True)
    return written.getvalue()


if __name__ == "__main__":
    sys.exit(main())
