"""Messages of mail as values."""

import base64
from email.message import EmailMessage

import pytest

from ottla.connect.claims import open_store, redeem
from ottla.connect.errors import DataException
from ottla.connect.plugins.mail.message import place_of, values_of


def a_message():
    message = EmailMessage()
    message["Subject"], message["Message-ID"] = "Rechnung für März", "<1@x>"
    message["From"], message["To"] = "Änne <a@x>", "b@y, C <c@y>"
    message["Date"] = "Mon, 05 Jan 2026 10:00:00 +0100"
    message.set_content("grüße")
    message.add_alternative("<b>grüße</b>", subtype="html")
    message.add_attachment(b"%PDF\0", maintype="application", subtype="pdf", filename="März.pdf")
    inner = EmailMessage()
    inner["Subject"] = "inner"
    inner.set_content("within")
    message.add_attachment(inner)
    return message.as_bytes()


def test_a_message_has_its_people_its_time_and_both_of_its_texts():
    [value] = values_of(a_message(), "inline", place_of(None))
    assert (value["subject"], value["date"]) == ("Rechnung für März", "2026-01-05T10:00:00+01:00")
    assert value["from"] == [{"name": "Änne", "address": "a@x"}]
    assert [each["address"] for each in value["to"]] == ["b@y", "c@y"]
    assert (value["text"], value["html"]) == ("grüße\n", "<b>grüße</b>\n")
    pdf, inner = value["attachments"]
    assert (pdf["name"], pdf["type"], base64.b64decode(pdf["content"])) == ("März.pdf", "application/pdf", b"%PDF\0")
    assert b"within" in base64.b64decode(inner["content"])


def test_attachments_may_be_records_with_their_content_in_a_store(tmp_path):
    message, pdf, _ = values_of(a_message(), "records", place_of(str(tmp_path)))
    assert [sorted(each) for each in message["attachments"]] == [["bytes", "name", "number", "type"]] * 2
    assert (pdf["kind"], pdf["message_id"], pdf["bytes"]) == ("attachment", "<1@x>", 5)
    assert redeem(pdf, open_store(str(tmp_path))) == b"%PDF\0"


def test_attachments_may_be_left_out():
    [value] = values_of(a_message(), "none", place_of(None))
    assert "content" not in value["attachments"][0]


@pytest.mark.parametrize(
    "content",
    [b"", b"just text", b"Content-Type: text/plain; charset=no-such\r\n\r\nx"],
)
def test_bytes_that_are_no_message_are_refused(content):
    with pytest.raises(DataException):
        list(values_of(content, "inline", place_of(None)))
