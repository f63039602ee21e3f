"""`kafka-client-metrics` and others keep subscriptions; a client of librdkafka pushes by them."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from ottla.broker.measures import gather
from ottla.cli.main import main
from ottla.metrics.exposition import render
from ottla.testing import TestBroker

Run = Callable[..., tuple[int, str, str]]
TOOL = "kafka-client-metrics"


@pytest.fixture
def run(kafka: TestBroker, capsys: pytest.CaptureFixture[str]) -> Run:
    def run_it(*words: str) -> tuple[int, str, str]:
        server = "--bootstrap-server" if words[0].startswith("kafka-") else "-b"
        code = main([*words, server, kafka.bootstrap_servers])
        told = capsys.readouterr()
        return code, told.out, told.err

    return run_it


def test_a_subscription_is_made_shown_changed_and_deleted(run: Run) -> None:
    made = run(TOOL, "--alter", "--name", "sub", "--metrics", "a.,b.", "--interval", "2000", "--match", "client_id=x.*")
    assert made == (0, "Altered client metrics config for sub.\n", "")
    assert run(TOOL, "--list")[1] == "sub\n"
    shown = "Client metrics configs for sub are:\n  interval.ms=2000\n  match=client_id=x.*\n  metrics=a.,b.\n"
    assert sorted(run(TOOL, "--describe", "--name", "sub")[1].splitlines()) == sorted(shown.splitlines())
    assert "metrics=a.,b." in run("kafka-configs", "--describe", "--client-metrics", "sub")[1]
    assert run("config", "set", "client-metrics", "sub", "interval.ms=5s")[0] == 0
    assert "5000" in run("config", "get", "client-metrics", "sub")[1]
    assert run(TOOL, "--alter", "--name", "sub", "--match", "")[0] == 0
    assert "match" not in run(TOOL, "--describe")[1]
    assert run(TOOL, "--delete", "--name", "sub") == (0, "Deleted client metrics config for sub.\n", "")
    assert run(TOOL, "--list")[1] == ""
    assert "doesn't exist" in run(TOOL, "--describe", "--name", "sub")[1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--alter", "--name", "bad", "--interval", "99"), "Value must be at least 100"),
        (("--alter", "--name", "bad", "--match", "client_idd=x"), "did you mean client_id"),
        (("--alter", "--name", "bad", "--match", "client_id=["), "Illegal client matching pattern"),
        (("--alter", "--name", "bad"), "--alter needs at least one of"),
        (("--alter", "--metrics", "x"), "needs the --name"),
        (("--delete", "--name", "bad"), "doesn't exist"),
        (("--list", "--metrics", "x"), "--metrics goes with --alter alone"),
    ],
)
def test_subscriptions_that_cannot_be_meant_are_refused(run: Run, words: tuple[str, ...], said: str) -> None:
    code, out, err = run(TOOL, *words)
    assert (code, said in err) == (1, True), err
    assert out == ""
    assert run(TOOL, "--list")[1] == ""


def test_a_client_of_librdkafka_pushes_what_it_is_asked_for(run: Run, kafka: TestBroker) -> None:
    from confluent_kafka import Producer

    asked = "org.apache.kafka.producer."
    assert (
        run(TOOL, "--alter", "--name", "all", "--metrics", asked, "--interval", "100", "--match", "client_id=pusher")[0]
        == 0
    )
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "client.id": "pusher"})
    until, text = time.monotonic() + 60, ""
    while time.monotonic() < until and 'client_id="pusher"' not in text:
        producer.poll(0.05)
        text = kafka.call(lambda: render(gather(kafka._running().node)))
    lines = [line for line in text.splitlines() if line.startswith("kafka_client_producer_") and "pusher" in line]
    assert lines
    assert 'client_software_name="confluent-kafka-python' in lines[0] or "librdkafka" in lines[0]
    producer.flush(10)
    assert run(TOOL, "--delete", "--name", "all")[0] == 0
