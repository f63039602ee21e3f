"""Attachments of mail as text and tables, alerts on words, and a search. Contents come from the claim store.

    ottla streams run examples/mail_directory/app.py --application-id mail-1
    python examples/mail_directory/app.py search overdue

A better parser is a new PARSER with a new application id: it reads the topic `mail` from its beginning, and its results
take the place of the old ones, since both have the message and the attachment as their key.
"""

import csv
import io
import os
import sys
import zipfile
from xml.etree import ElementTree

from ottla.client import Consumer
from ottla.connect.claims import redeem
from ottla.streams import JSON, TEXT, StreamsBuilder

PARSER = "1"
STORE = os.environ.get("CLAIM_STORE", "claims")
ALERTS = os.environ.get("ALERT_WORDS", "overdue,lawsuit").split(",")
MOST_BYTES = 50_000_000
"""A part of a packed document that says it is larger is left alone."""
WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
SHEET = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"


def part(document, name):
    """One part of a Word or Excel document, as XML."""
    if document.getinfo(name).file_size > MOST_BYTES:
        raise ValueError(f"{name} has more than {MOST_BYTES:,} bytes")
    return ElementTree.fromstring(document.read(name))


def word(content):
    """The paragraphs and tables of a Word document."""
    with zipfile.ZipFile(io.BytesIO(content)) as document:
        body = part(document, "word/document.xml")
    paragraphs = ["".join(run.text or "" for run in each.iter(f"{WORD}t")) for each in body.iter(f"{WORD}p")]
    tables = [
        [
            ["".join(t.text or "" for t in cell.iter(f"{WORD}t")) for cell in row.iter(f"{WORD}tc")]
            for row in table.iter(f"{WORD}tr")
        ]
        for table in body.iter(f"{WORD}tbl")
    ]
    return "\n".join(paragraphs), tables


def excel(content):
    """The rows of all sheets."""
    with zipfile.ZipFile(io.BytesIO(content)) as document:
        names = document.namelist()
        shared = []
        if "xl/sharedStrings.xml" in names:
            strings = part(document, "xl/sharedStrings.xml").iter(f"{SHEET}si")
            shared = ["".join(t.text or "" for t in each.iter(f"{SHEET}t")) for each in strings]
        sheets = [part(document, name) for name in sorted(names) if name.startswith("xl/worksheets/sheet")]

    def value(cell):
        if cell.get("t") == "inlineStr":
            return "".join(t.text or "" for t in cell.iter(f"{SHEET}t"))
        text = cell.findtext(f"{SHEET}v") or ""
        return shared[int(text)] if cell.get("t") == "s" else text

    tables = [
        [[value(cell) for cell in row.iter(f"{SHEET}c")] for row in sheet.iter(f"{SHEET}row")] for sheet in sheets
    ]
    return "\n".join(" ".join(row) for table in tables for row in table), tables


def pdf(content):
    """The text of a PDF's pages: `pip install pypdf`."""
    from pypdf import PdfReader

    return "\n".join(page.extract_text() for page in PdfReader(io.BytesIO(content)).pages), []


def plain(content):
    """Text as it is."""
    return content.decode("utf-8", "replace"), []


def rows(content):
    """The rows of a CSV file."""
    table = list(csv.reader(io.StringIO(content.decode("utf-8", "replace"))))
    return "\n".join(" ".join(row) for row in table), [table]


PARSERS = {".docx": word, ".xlsx": excel, ".pdf": pdf, ".txt": plain, ".csv": rows}


def parsed(value):
    """A message or an attachment as text and tables; what cannot be parsed says why, and stops nothing."""
    about = {name: value.get(name) for name in ("message_id", "subject", "name")} | {"parser": PARSER}
    if value["kind"] == "message":
        return {**about, "text": value.get("text") or value.get("html") or "", "tables": []}
    ending = os.path.splitext(value["name"] or "")[1].lower()
    if ending not in PARSERS:
        return {
            **about,
            "text": "",
            "tables": [],
            "fault": f"there is no parser for {ending or 'a file without ending'}",
        }
    content = redeem(value, STORE)  # what is not in the store ends the run: nothing is passed over
    try:
        text, tables = PARSERS[ending](content)
    except Exception as fault:
        return {**about, "text": "", "tables": [], "fault": f"{type(fault).__name__}: {fault}"}
    return {**about, "text": text, "tables": tables}


def topology():
    """From `mail` to `mail-text` and `mail-alerts`."""
    builder = StreamsBuilder(key=TEXT, value=JSON)
    texts = builder.stream("mail").map(lambda key, value: (f"{key}/{value.get('number', 0)}", parsed(value)))
    texts.to("mail-text")
    found = texts.filter(lambda _, value: any(each in value["text"].lower() for each in ALERTS))
    found.map_values(lambda value: {"alert": value["subject"], "name": value["name"]}).to("mail-alerts")
    return builder.build()


def search(bootstrap, wanted):
    """The newest text of each part that has a word."""
    newest = {}
    with Consumer(
        bootstrap, group_id="mail-search", auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        consumer.subscribe(["mail-text"])
        while records := consumer.poll(10_000):
            newest |= {record.key: JSON.from_bytes(record.value) for record in records}
    for key, value in sorted(newest.items()):
        for line in value["text"].splitlines():
            if wanted.lower() in line.lower():
                print(f"{key.decode()}  {value['name'] or 'message'}  {line.strip()}")


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] != "search":
        sys.exit("usage: python app.py search WORD")
    search(os.environ.get("OTTLA_BOOTSTRAP", "localhost:9092"), sys.argv[2])
