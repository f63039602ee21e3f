"""The IMAP source against a small server. Dovecot answers the same questions alike."""

import asyncio
from contextlib import contextmanager

import pytest
from tests.connect.plugins.mail.imap_server import serving_mailbox

from ottla.connect.errors import ConfigException, ConnectException
from ottla.connect.plugins.mail.imap import ImapSourceConnector
from ottla.connect.testing import OtherSide, check_source

MESSAGES = [
    b"Message-ID: <%d@x>\r\nSubject: bird %d\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n"
    b"--b\r\n\r\nhello\r\n--b\r\nContent-Disposition: attachment; filename=a.bin\r\n"
    b"Content-Type: application/octet-stream\r\n\r\nx\r\n--b--\r\n" % (n, n)
    for n in range(3)
]


@pytest.fixture
def box():
    with serving_mailbox(MESSAGES) as made:
        yield made


def config(box, **more):
    given = {name.replace("_", "."): value for name, value in more.items()}
    return {
        "imap.host": "127.0.0.1", "imap.port": str(box.port), "imap.security": "none", "imap.user": "u",
        "imap.password": "pw", "topic": "t", "poll.interval.ms": "1", "batch.size": "2", **given,
    }  # fmt: skip


class Kept:
    async def read(self, partitions):
        return [None for _ in partitions]


def read(given, count):
    """So many records; then all are in Kafka."""

    async def story():
        task = ImapSourceConnector.task(given)
        try:
            await task.start(Kept())
            found = []
            async with asyncio.timeout(60):
                while len(found) < count:
                    found += await task.read()
            await task.commit([(each.source_partition, each.source_offset) for each in found[-1:]])
            return found
        finally:
            await task.close()

    return asyncio.run(story())


def test_the_imap_source_passes_the_kit_with_attachments_as_records(box):
    @contextmanager
    def down():
        box.down = True
        yield
        box.down = False

    side = OtherSide(config(box, mail_attachments="records"), trouble=down)
    found = check_source(ImapSourceConnector, lambda: side, records=6)
    assert [(each.key, each.value["kind"]) for each in found[:2]] == [("<0@x>", "message"), ("<0@x>", "attachment")]
    assert found[0].source_partition == {"server": "127.0.0.1", "user": "u", "mailbox": "INBOX", "uidvalidity": 7}


def test_messages_are_marked_or_deleted_once_they_are_in_kafka(box):
    read(config(box, after="seen"), 3)
    assert list(box.flags.values()) == [{"\\Seen"}] * 3
    read(config(box, after="delete"), 3)
    assert not box.messages


def test_a_message_that_is_too_long_or_none_is_a_refused_record_and_is_not_deleted(box):
    box.messages[1] = b"x" * 5000
    box.messages[2] = b"no header at all"
    found = read(config(box, after="delete", mail_max_bytes="4000"), 3)
    assert "has 5,000 bytes, more than mail.max.bytes=4000" in str(found[0].fault)
    assert (found[1].value, "it has no header" in str(found[1].fault)) == (b"no header at all", True)
    assert set(box.messages) == {1, 2}


@pytest.mark.parametrize(
    ("more", "sentence"),
    [({"imap_password": "other"}, "wrong password"), ({"imap_mailbox": "Sent"}, "does not open the mailbox Sent")],
)
def test_a_refused_login_or_mailbox_ends_the_task(box, more, sentence):
    with pytest.raises(ConnectException, match=sentence):
        read(config(box, **more), 1)


def test_offsets_that_no_mailbox_has_are_refused(box):
    place = {"server": "h", "user": "u", "mailbox": "INBOX", "uidvalidity": 7}
    ImapSourceConnector.check_offsets({}, [(place, {"uid": 3, "parts": 1, "last": True})])
    with pytest.raises(ConfigException, match="uid and parts, which are numbers"):
        ImapSourceConnector.check_offsets({}, [(place, {"uid": True, "parts": 1, "last": True})])
    with pytest.raises(ConfigException, match="uidvalidity"):
        ImapSourceConnector.check_offsets({}, [({"mailbox": "INBOX"}, None)])
