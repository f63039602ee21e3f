"""The example of activity: a small log becomes sessions, counts and top pages, and a page that shows them."""

from __future__ import annotations

import json
import threading
import urllib.request
from collections import Counter
from collections.abc import Callable
from types import ModuleType

from ottla.client import TopicTable
from ottla.streams import TopologyTest, Windowed, run
from ottla.testing import TestBroker

Imported = Callable[[str], ModuleType]


def line(visitor: str, minute: int, path: str, *, came_from: str = "-", status: int = 200) -> str:
    at = f"17/May/2015:10:{minute:02d}:00 +0000"
    return f'{visitor} - - [{at}] "GET {path} HTTP/1.1" {status} 100 "{came_from}" "agent"'


LOG = [
    line("ann", 1, "/blog/one"),
    line("ann", 2, "/blog/two", came_from="http://semicomplete.com/blog/one"),
    line("ann", 50, "/projects/x", came_from="http://google.com/search?q=x+y"),
    line("bob", 1, "/blog/one"),
    line("bob", 1, "/blog/one"),
    line("bob", 3, "/blog/gone", status=404),
    line("bob", 4, "/style.css"),
    "no line of a log",
]
START = 1431856800000
"""10:00 of that day."""


def test_sessions_minutes_and_top_pages_are_those_of_the_log(example: Imported) -> None:
    activity, play = example("activity_streams/activity.py"), example("activity_streams/play.py")
    found = sorted(play.activities(LOG), key=lambda each: each[2])
    assert Counter(kind for kind, *_ in found) == {"page-views": 5, "clicks": 1, "searches": 1}
    test = TopologyTest(activity.topology())
    for kind, visitor, at, event in reversed(found):
        test.pipe_input(kind, visitor, event, at)
    minute = activity.MINUTE
    assert test.rows("sessions") == {
        Windowed("ann", START + minute, START + 2 * minute): {
            "counts": {"click": 1, "view": 2}, "sites": ["blog.example"],
        },
        Windowed("ann", START + 50 * minute, START + 50 * minute): {
            "counts": {"search": 1, "view": 1}, "sites": ["projects.example"],
        },
        Windowed("bob", START + minute, START + minute): {"counts": {"view": 2}, "sites": ["blog.example"]},
    }  # fmt: skip
    assert {key.key: count for key, count in test.rows("minutes").items()} == {
        "blog.example/blog/one": 3, "blog.example/blog/two": 1, "projects.example/projects/x": 1,
    }  # fmt: skip
    assert test.rows("top")[f"blog.example@{START}"] == {"blog.example/blog/one": 3, "blog.example/blog/two": 1}
    assert test.dropped == {}


def test_the_top_pages_are_the_ten_that_were_seen_most(example: Imported) -> None:
    activity = example("activity_streams/activity.py")
    top: dict[str, int] = {}
    for seen in range(1, 4):
        for page in range(seen * 6):
            top = activity.higher("site", (f"/{page:02d}", seen), top)
    assert list(top.items()) == [(f"/{page:02d}", 3) for page in range(10)]


def test_the_page_shows_the_newest_hour_of_a_run(broker: TestBroker, example: Imported) -> None:
    activity, play = example("activity_streams/activity.py"), example("activity_streams/play.py")
    where, stop = broker.bootstrap_servers, threading.Event()
    play.prepare(where)
    assert play.replay(where, LOG).total() == 7
    options = {"application_id": "activity", "bootstrap": where, "stop": stop}
    work = threading.Thread(target=run, args=(activity.topology(),), kwargs=options)
    work.start()
    with TopicTable("top-pages", where, key=bytes.decode, value=json.loads) as top:
        server = play.served(top, 0)
        threading.Thread(target=server.serve_forever).start()
        try:
            wanted = {"blog.example/blog/one": 3, "blog.example/blog/two": 1}
            broker.wait_for(
                lambda: play.newest(top.snapshot())[1].get("blog.example") == wanted, what="top pages", timeout=60
            )
            with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/top") as answer:
                assert json.load(answer)["sites"]["blog.example"] == wanted
            with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/") as answer:
                assert b"Top pages" in answer.read()
        finally:
            stop.set()
            work.join(60)
            server.shutdown()
            server.server_close()
