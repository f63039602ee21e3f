"""The mail directory of examples/, without a broker: messages with attachments made here."""

import io
import json
import runpy
import sys
import zipfile
from email.message import EmailMessage
from pathlib import Path

import pytest

from ottla.connect.plugins.mail.message import place_of, values_of
from ottla.streams import TopologyTest

PATH = Path(__file__).resolve().parents[2] / "examples" / "mail_directory" / "app.py"
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
LETTER = (
    f'<w:document xmlns:w="{WORD}"><w:body><w:p><w:r><w:t>The bill is </w:t></w:r><w:r><w:t>overdue.</w:t></w:r></w:p>'
    "<w:tbl><w:tr><w:tc><w:p><w:r><w:t>wren</w:t></w:r></w:p></w:tc><w:tc><w:p><w:r><w:t>3</w:t></w:r></w:p></w:tc></w:tr>"
    "</w:tbl></w:body></w:document>"
)
STRINGS = f'<sst xmlns="{SHEET}"><si><t>wren</t></si></sst>'
ROWS = (
    f'<worksheet xmlns="{SHEET}"><sheetData><row><c t="s"><v>0</v></c><c><v>3.5</v></c>'
    '<c t="inlineStr"><is><t>now</t></is></c></row></sheetData></worksheet>'
)


def packed(**parts):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as document:
        for name, text in parts.items():
            document.writestr(name.replace("__", "/").replace("_xml", ".xml"), text)
    return made.getvalue()


def mail(number, **attachments):
    message = EmailMessage()
    message["Message-ID"], message["Subject"] = f"<{number}@x>", f"mail {number}"
    message.set_content("see the attachment")
    for name, content in attachments.items():
        stem, _, ending = name.rpartition("_")
        message.add_attachment(content, maintype="application", subtype="octet-stream", filename=f"{stem}.{ending}")
    return message.as_bytes()


@pytest.fixture
def app(tmp_path, monkeypatch):
    monkeypatch.setenv("CLAIM_STORE", str(tmp_path))
    monkeypatch.setitem(sys.modules, "pypdf", None)
    return runpy.run_path(str(PATH))


def run(app, tmp_path, *messages):
    test = TopologyTest(app["topology"]())
    for content in messages:
        for value in values_of(content, "records", place_of(str(tmp_path))):
            test.pipe_input("mail", value["message_id"], json.loads(json.dumps(value)), 0)
    return dict(test.read_records("mail-text")), test.read_records("mail-alerts")


def test_word_and_excel_documents_become_text_and_tables(app, tmp_path):
    letter = packed(word__document_xml=LETTER)
    sheet = packed(xl__sharedStrings_xml=STRINGS, xl__worksheets__sheet1_xml=ROWS)
    texts, alerts = run(app, tmp_path, mail(1, letter_docx=letter, birds_xlsx=sheet))
    assert texts["<1@x>/0"]["text"] == "see the attachment\n"
    assert texts["<1@x>/1"]["text"].splitlines()[0] == "The bill is overdue."
    assert texts["<1@x>/1"]["tables"] == [[["wren", "3"]]]
    assert texts["<1@x>/2"]["tables"] == [[["wren", "3.5", "now"]]]
    assert alerts == [("<1@x>/1", {"alert": "mail 1", "name": "letter.docx"})]


def test_a_file_that_cannot_be_parsed_says_why_and_the_next_one_is_read(app, tmp_path):
    texts, _ = run(app, tmp_path, mail(1, a_docx=b"no zip", b_pdf=b"%PDF", c_exe=b"x", d_txt=b"fine"))
    assert "BadZipFile" in texts["<1@x>/1"]["fault"]
    assert "pypdf" in texts["<1@x>/2"]["fault"]
    assert texts["<1@x>/3"]["fault"] == "there is no parser for .exe"
    assert texts["<1@x>/4"]["text"] == "fine"


def test_a_better_parser_takes_the_place_of_the_old_results(app, tmp_path):
    old, _ = run(app, tmp_path, mail(1, a_dat=b"old format"))
    app["PARSERS"][".dat"] = app["plain"]
    new, _ = run(app, tmp_path, mail(1, a_dat=b"old format"))
    assert old.keys() == new.keys()
    assert ("fault" in old["<1@x>/1"], new["<1@x>/1"]["text"]) == (True, "old format")
