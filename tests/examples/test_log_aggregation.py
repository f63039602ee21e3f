"""The log aggregation of examples/, without a broker."""

import runpy
from pathlib import Path

import pytest

from ottla.connect.plugins.syslog.message import parsed, timestamp_ms
from ottla.streams import TopologyTest

APP = runpy.run_path(str(Path(__file__).resolve().parents[2] / "examples" / "log_aggregation" / "app.py"))


def sent(test, text):
    from datetime import UTC, datetime

    line = parsed(text.encode(), now=datetime(2026, 1, 2, tzinfo=UTC))
    test.pipe_input("logs", line["host"], line, timestamp_ms(line))


@pytest.mark.parametrize(
    ("message", "template", "field"),
    [
        (
            "Failed password for root from 10.0.0.7 port 4711 ssh2",
            "Failed password for <*> from <*> port <*> ssh2",
            None,
        ),
        ("Invalid user webmaster from 173.234.31.186", "Invalid user <*> from <*>", None),
        ("session uid=0 tty=ssh rhost=a.example.org", "session uid=<*> tty=<*> rhost=<*>", ("rhost", "a.example.org")),
        ("block blk_38865049064139660 of /user/root/x.bin", "block <*> of <*>", None),
        ("at Fri Jun 17 07:07:00 2005 from 0x1f", "at <*> from <*>", None),
    ],
)
def test_a_message_becomes_its_template_and_its_fields(message, template, field):
    found, fields = APP["template_of"](message)
    assert found == template
    assert field is None or fields[field[0]] == field[1]


def test_lines_become_events_counts_and_alerts():
    test = TopologyTest(APP["topology"]())
    for second in range(6):
        sent(test, f"<38>Jan  1 10:00:0{second} web1 sshd[4{second}]: Invalid user bird{second} from 10.0.0.{second}")
    sent(test, "<34>Jan  1 10:01:00 web2 kernel: disk 3 is gone")
    events = [record.value for record in test.read_outputs("log-events")]
    assert {event["template"] for event in events} == {"Invalid user <*> from <*>", "disk <*> is gone"}
    assert events[0]["fields"]["values"] == ["bird0", "10.0.0.0"]
    counts = dict(test.read_records("log-counts"))
    assert counts["2026-01-01T10:00 web1 Invalid user <*> from <*>"] == 6
    assert [value["alert"] for _, value in test.read_records("log-alerts")] == ["5 a minute", "crit"]


def test_a_gap_in_the_numbers_of_a_sender_shows_what_is_missing():
    test = TopologyTest(APP["topology"]())
    for number in (1, 2, 5):
        line = {"message": "sold", "sender": "web1-7-ab", "number": number, "host": "web1", "level": "INFO"}
        test.pipe_input("logs", "web1", line, 1_000)
    sent(test, "<46>Jan  1 10:00:00 web9 rsyslogd-pstats: to_ottla: origin=core.action processed=4 failed=0")
    arrivals = dict(test.read_records("log-arrivals"))
    assert arrivals["web1-7-ab"] == {"sent": 5, "arrived": 3}
    assert arrivals["web9"] == {"sent": 4, "arrived": 1}
