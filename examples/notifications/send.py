"""Both ends of the alerts: a log into its topic, and alerts to a webhook.

python examples/notifications/send.py log openssh.log --year 2025
python examples/notifications/send.py webhook http://localhost:9000/alerts
"""

from __future__ import annotations

import argparse
import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from ottla.client import Admin, ApiError, CommittedOffset, Consumer, ErrorCode, Producer, TopicPartition

LOG, ALERTS = "auth-log", "alerts"


def prepare(bootstrap: str) -> None:
    """Make the topics; lines of old logs would be past the default retention at once."""
    with Admin(bootstrap) as admin:
        for topic in (LOG, ALERTS):
            try:
                admin.create_topic(topic, 2, configs={"retention.ms": "-1"})
            except ApiError as fault:
                if fault.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise


def write(bootstrap: str, lines: Iterable[str], year: int) -> int:
    """Write lines under their host, stamped with their own time; the number written."""
    count = 0
    with Producer(bootstrap) as producer:
        for line in lines:
            count += 1
            at = datetime.strptime(f"{year} {line[:15]}", "%Y %b %d %H:%M:%S").replace(tzinfo=UTC)
            producer.produce(LOG, line.rstrip("\n"), line.split()[3], timestamp=int(at.timestamp() * 1000))
    return count


def post(url: str, alert: dict[str, object]) -> None:
    """Send one alert; a receiver that has seen its key answers 2xx and does nothing."""
    request = urllib.request.Request(
        url, json.dumps(alert).encode(), {"Content-Type": "application/json", "Idempotency-Key": str(alert["id"])}
    )
    with urllib.request.urlopen(request, timeout=30):
        pass


def webhook(bootstrap: str, url: str, *, stop: threading.Event | None = None, pause_s: float = 5.0) -> None:
    """Post alerts one by one, each until it is taken; an alert counts as sent once its offset is committed."""
    stop = stop or threading.Event()
    with Consumer(
        bootstrap, group_id="webhook", isolation_level="read_committed", auto_offset_reset="earliest",
        enable_auto_commit=False, max_poll_records=1,
    ) as consumer:  # fmt: skip
        consumer.subscribe([ALERTS])
        while not stop.is_set():
            for record in consumer.poll(500):
                alert = json.loads(record.value or b"")
                while not stop.is_set():
                    try:
                        post(url, alert)
                        break
                    except (urllib.error.URLError, TimeoutError) as fault:
                        print(f"{alert['id']} was not taken ({fault}); again in {pause_s:.0f} s", flush=True)
                        stop.wait(pause_s)
                else:
                    return
                place = TopicPartition(record.topic, record.partition)
                consumer.commit({place: CommittedOffset(record.offset + 1)})
                print(f"{time.strftime('%H:%M:%S')} sent {alert['id']}: {alert['failures']} failures", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("do", choices=["log", "webhook"])
    parser.add_argument("where", help="the file of the log, or the URL of the webhook")
    parser.add_argument("--year", type=int, default=datetime.now(UTC).year, help="the log's lines have none")
    parser.add_argument("--bootstrap", default="localhost:9092")
    given = parser.parse_args()
    prepare(given.bootstrap)
    if given.do == "webhook":
        webhook(given.bootstrap, given.where)
    else:
        with Path(given.where).open() as lines:
            print(f"wrote {write(given.bootstrap, lines, given.year)} lines to {LOG}")


if __name__ == "__main__":
    main()
