"""Log lines of many hosts as events with templates and fields, counts a minute, alerts, and how many arrived.

    ottla streams run examples/log_aggregation/app.py --application-id log-aggregation

It reads the topic `logs`, which the syslog connector, rsyslog or fluent-bit and `ottla.logging.KafkaHandler` fill.
"""

import re
from datetime import UTC, datetime

from ottla.streams import JSON, TEXT, StreamsBuilder, TimeWindows

MINUTE_MS = 60_000
GRACE_MS = 24 * 60 * MINUTE_MS
"""Lines that come later than that are not counted: a host was away for so long."""
LIMIT = 5
"""So many lines of one template a minute from one host are an alert."""
BAD = ("emerg", "alert", "crit", "CRITICAL")
VARYING = re.compile(
    r"""
    (?<==)[^\s,;]+                                      # the value in name=value
  | \w+://[^\s,;]+                                      # URLs
  | \b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\ [A-Z][a-z]{2}\ +\d+\ [\d:]+(?:\ \d{4})?   # dates
  | (?<![\w.])(?:/[\w.@%+~-]+){2,}/?                    # paths
  | (?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?          # IPv4
  | \b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b     # UUIDs
  | \b0x[0-9a-fA-F]+\b
  | (?<![\w.])(?:[\w-]+\.){2,}[A-Za-z]{2,}(?![\w.(])    # hosts
  | [+-]?\b\d+(?:[.:,]\d+)*\b                           # numbers, times
  | \b(?!ssh2)[A-Za-z_-]*\d[\w-]*\b                     # words with digits: ids
    """,
    re.VERBOSE,
)
NAMED = re.compile(r"\b([Ii]nvalid user|for user|password for|user) (?!invalid user|unknown|request)([\w.$-]+)(?= |$)")
HOST = re.compile(r"\((?:[\w-]+\.)+[\w-]+\)|\(\)(?= at )")
PAIR = re.compile(r"\b([A-Za-z_][\w.-]*)=([^\s,;]+)")


def template_of(message):
    """The template, and the fields that stand in it: those of name=value by their names, the others in their order."""
    values = []

    def varied(match):
        values.append(match[0])
        return "<*>"

    def named(match):
        values.append(match[2])
        return f"{match[1]} <*>"

    template = VARYING.sub(varied, HOST.sub("(<*>)", NAMED.sub(named, message)))
    return template, {"values": values, **dict(PAIR.findall(message))}


def event_of(key, line):
    """One line of syslog or of KafkaHandler in one form."""
    template, fields = template_of(line.get("message", "").strip())
    return {
        "host": line.get("host", key), "app": line.get("app") or line.get("logger"),
        "severity": line.get("severity") or line.get("level"), "template": template, "fields": fields,
        "message": line.get("message", ""), "time": line.get("timestamp") or line.get("time"),
    }  # fmt: skip


def minute(windowed):
    """The key of a count: which minute, which host, which template."""
    start = datetime.fromtimestamp(windowed.start / 1000, UTC)
    return f"{start:%Y-%m-%dT%H:%M} {windowed.key}"


def arrival(_, line, seen):
    """Count the lines of a sender, beside the number that it says it has sent.

    KafkaHandler numbers its lines. rsyslog tells its own count: its statistics come as a line of the same way.
    """
    seen = {"sent": seen["sent"], "arrived": seen["arrived"] + 1}
    if "number" in line:
        seen["sent"] = max(seen["sent"], line["number"])
    elif (told := re.search(r"to_ottla.* processed=(\d+)", line.get("message", ""))) is not None:
        seen["sent"] = max(seen["sent"], int(told[1]))
    return seen


def topology():
    """From `logs` to `log-events`, `log-counts`, `log-alerts` and `log-arrivals`."""
    builder = StreamsBuilder(key=TEXT, value=JSON)
    lines = builder.stream("logs")
    events = lines.map(lambda key, line: (key, event_of(key, line)))
    events.to("log-events")

    by_template = events.group_by(lambda _, event: f"{event['host']} {event['template']}")
    counts = by_template.windowed_by(TimeWindows(MINUTE_MS, grace_ms=GRACE_MS)).count(store="a-minute")
    counted = counts.to_stream().map(lambda window, count: (minute(window), count))
    counted.to("log-counts")

    loud = counted.filter(lambda _, count: count == LIMIT)
    loud.map(lambda key, count: (key, {"alert": f"{count} a minute", "of": key})).to("log-alerts")
    bad = events.filter(lambda _, event: event["severity"] in BAD)
    bad.map_values(lambda event: {"alert": event["severity"], "of": event["message"]}).to("log-alerts")

    senders = lines.group_by(lambda key, line: line.get("sender") or line.get("host") or key)
    senders.aggregate(lambda: {"sent": 0, "arrived": 0}, arrival, store="arrivals").to_stream().to("log-arrivals")
    return builder.build()
