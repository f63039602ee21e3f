"""The example of failed logins: alerts by the log's own time, each told once."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Callable
from types import ModuleType

from ottla.client import Producer
from ottla.streams import TEXT, TopologyTest, run
from ottla.testing import TestBroker

Imported = Callable[[str], ModuleType]
MINUTE = 60_000


def line(address: str, minute: int = 0, *, times: int = 1, user: str = "root") -> str:
    failed = f"Failed password for {user} from {address} port 1 ssh2"
    told = f"message repeated {times} times: [ {failed}]" if times > 1 else failed
    return f"Dec 10 07:{minute:02d}:00 host sshd[1]: {told}"


def test_five_failures_in_five_minutes_are_one_alert_an_hour(example: Imported) -> None:
    watch = example("notifications/watch.py")
    test = TopologyTest(watch.topology())

    def fails(address: str, minute: int, *, times: int = 1) -> None:
        test.pipe_input(watch.LOG, "host", line(address, times=times), minute * MINUTE)

    for minute in range(0, 12, 2):
        fails("slow", minute)
    assert test.read_records(watch.ALERTS) == []
    fails("quick", 20, times=4)
    fails("quick", 23)
    fails("quick", 24, times=9)
    ((address, alert),) = test.read_records(watch.ALERTS)
    assert (address, alert["failures"], alert["within_s"], alert["users"]) == ("quick", 5, 180, ["root"])
    fails("quick", 82, times=5)
    assert test.read_records(watch.ALERTS) == []
    fails("quick", 90, times=5)
    assert [alert["id"] for _, alert in test.read_records(watch.ALERTS)] == [f"quick@{90 * MINUTE}"]
    assert "slow" not in test.rows("watched")


def test_other_lines_are_no_failures(example: Imported) -> None:
    watch = example("notifications/watch.py")
    assert watch.failure("Dec 10 07:00:00 host sshd[1]: Accepted password for root from x port 1 ssh2") is None
    found = watch.failure("Dec 10 07:00:00 h sshd[1]: Failed password for invalid user a b from ::1 port 2 ssh2")
    assert found == {"address": "::1", "user": "a b", "times": 1}


def test_the_webhook_gets_each_alert_once_and_one_that_it_refuses_again(broker: TestBroker, example: Imported) -> None:
    watch, send = example("notifications/watch.py"), example("notifications/send.py")
    where = broker.bootstrap_servers
    send.prepare(where)
    taken: list[str] = []
    stop = threading.Event()

    class Receiver(http.server.BaseHTTPRequestHandler):
        refused = False

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            taken.append(self.headers["Idempotency-Key"])
            self.send_response(200 if Receiver.refused else 503)
            Receiver.refused = True
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Receiver)
    url = f"http://127.0.0.1:{server.server_port}/"
    threads = [
        threading.Thread(target=server.serve_forever),
        threading.Thread(target=send.webhook, args=(where, url), kwargs={"stop": stop, "pause_s": 0.01}),
        threading.Thread(
            target=run, args=(watch.topology(),), kwargs={"application_id": "watch", "bootstrap": where, "stop": stop}
        ),
    ]
    for thread in threads:
        thread.start()
    try:
        assert send.write(where, [line("one", 1, times=5), line("one", 2, times=5)], 2025) == 2
        broker.wait_for(lambda: len(taken) >= 2, what="the alert was refused, and taken", timeout=60)
        with Producer(where) as producer:
            producer.produce(watch.ALERTS, TEXT.write('{"id": "last", "failures": 0}'), "last")
        broker.wait_for(lambda: "last" in taken, what="the next alert was taken", timeout=60)
    finally:
        stop.set()
        server.shutdown()
        for thread in threads:
            thread.join(60)
        server.server_close()
    assert taken[:2] == [taken[0]] * 2
    assert taken[2:] == ["last"]
