"""Replays an access log as activity of several sites, and shows the top pages as a page that lives.

python examples/activity_streams/play.py replay access.log
python examples/activity_streams/play.py show --port 8080
"""

from __future__ import annotations

import argparse
import http.server
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ottla.client import Admin, ApiError, ErrorCode, Producer, TopicTable

KINDS = ("page-views", "searches", "clicks")
LINE = re.compile(r'(\S+) \S+ \S+ \[([^]]+)\] "GET (\S+) [^"]*" (\d{3}) \S+ "([^"]*)"')
NO_PAGE = re.compile(r"\.(css|js|png|jpe?g|gif|ico|svg|woff|ttf|txt|jar|gz|pdf|swf)$|rss|atom", re.IGNORECASE)
PAGE = Path(__file__).with_name("page.html")


def activities(lines: Iterable[str]) -> Iterator[tuple[str, str, int, dict[str, Any]]]:
    """Kind, visitor, time and event of each line that is a page. The first folder of a page stands for its site."""
    for line in lines:
        found = LINE.match(line)
        path = urlsplit(found[3]).path if found else ""
        if found is None or found[4] != "200" or NO_PAGE.search(found[3]):
            continue
        visitor, at = found[1], int(datetime.strptime(found[2], "%d/%b/%Y:%H:%M:%S %z").timestamp() * 1000)
        folder, _, _rest = path.lstrip("/").partition("/")
        site, page = f"{folder or 'home'}.example", path
        yield "page-views", visitor, at, {"kind": "view", "site": site, "page": page}
        came_from = urlsplit(found[5])
        if words := parse_qs(came_from.query).get("q"):
            yield "searches", visitor, at, {"kind": "search", "site": site, "words": words[0], "page": page}
        elif "semicomplete.com" in came_from.netloc:
            yield "clicks", visitor, at, {"kind": "click", "site": site, "from": came_from.path, "page": page}


def prepare(bootstrap: str) -> None:
    """Make the topics; what an old log says would be past the default retention at once."""
    with Admin(bootstrap) as admin:
        for topic in (*KINDS, "sessions", "page-minutes", "top-pages"):
            configs = {"retention.ms": "-1"} if topic != "top-pages" else {"cleanup.policy": "compact"}
            try:
                admin.create_topic(topic, 2, configs=configs)
            except ApiError as fault:
                if fault.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise


def replay(bootstrap: str, lines: Iterable[str], *, a_second: float = 0) -> Counter[str]:
    """Write the activities of a log in the order of their times; the number of each kind."""
    written: Counter[str] = Counter()
    with Producer(bootstrap) as producer:
        for kind, visitor, at, event in sorted(activities(lines), key=lambda each: each[2]):
            producer.produce(kind, json.dumps(event), visitor, timestamp=at)
            written[kind] += 1
            if a_second:
                time.sleep(1 / a_second)
    return written


def newest(top: dict[str, dict[str, int]]) -> tuple[str, dict[str, dict[str, int]]]:
    """The newest hour that any site has pages of, and the top pages of each site then."""
    hour = max((int(key.rpartition("@")[2]) for key in top), default=0)
    sites = {key.rpartition("@")[0]: pages for key, pages in sorted(top.items()) if key.endswith(f"@{hour}")}
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(hour / 1000)), sites


def served(top: TopicTable[str, dict[str, int]], port: int) -> http.server.HTTPServer:
    """A server of the page, and of its numbers at /top."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            hour, sites = newest(top.snapshot())
            numbers = {"hour": hour, "sites": sites, "lag": top.lag()}
            is_page = self.path == "/"
            self.send_response(200 if self.path in ("/", "/top") else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8" if is_page else "application/json")
            self.end_headers()
            self.wfile.write(PAGE.read_bytes() if is_page else json.dumps(numbers).encode())

        def log_message(self, *_: object) -> None:
            pass

    return http.server.ThreadingHTTPServer(("127.0.0.1", port), Answer)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("do", choices=["replay", "show"])
    parser.add_argument("log", nargs="?", type=Path)
    parser.add_argument("--bootstrap", default="localhost:9092")
    parser.add_argument("--a-second", type=float, default=0, help="records a second; 0: all at once")
    parser.add_argument("--port", type=int, default=8080)
    given = parser.parse_args()
    prepare(given.bootstrap)
    if given.do == "show":
        with TopicTable("top-pages", given.bootstrap, key=bytes.decode, value=json.loads) as top:
            print(f"http://127.0.0.1:{given.port}", flush=True)
            served(top, given.port).serve_forever()
    elif given.log is None:
        sys.exit("name the log: play.py replay access.log")
    else:
        with given.log.open(errors="replace") as lines:
            print(", ".join(f"{count} {kind}" for kind, count in sorted(replay(given.bootstrap, lines).items())))


if __name__ == "__main__":
    main()
