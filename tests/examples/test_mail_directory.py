"""The mail directory of examples/, without a broker: messages with attachments made here."""

import json
import runpy
import sys
from pathlib import Path

import pytest
from tests.examples.messages import LETTER, ROWS, STRINGS, mail, packed

from ottla.connect.plugins.mail.message import place_of, values_of
from ottla.streams import TopologyTest

PATH = Path(__file__).resolve().parents[2] / "examples" / "mail_directory" / "app.py"


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
