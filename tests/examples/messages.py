"""Messages with attachments, made here."""

import io
import zipfile
from email.message import EmailMessage

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
