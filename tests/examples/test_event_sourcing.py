"""The example of accounts: what they decide, and that nothing is lost or doubled through kill -9."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from types import ModuleType

import pytest
from tests.examples.conftest import EXAMPLES

from ottla.client import Admin, Producer
from ottla.streams import JSON, TopologyTest, query
from ottla.testing import TestBroker

Imported = Callable[[str], ModuleType]


def test_a_transfer_leaves_one_account_and_reaches_the_other_or_comes_back(example: Imported) -> None:
    accounts = example("event_sourcing/accounts.py")
    test = TopologyTest(accounts.topology())
    for key, command in (
        ("ann", {"do": "open"}),
        ("bob", {"do": "open"}),
        ("ann", {"do": "deposit", "amount": 100}),
        ("ann", {"do": "transfer", "amount": 30, "to": "bob"}),
        ("ann", {"do": "transfer", "amount": 20, "to": "nobody"}),
        ("bob", {"do": "withdraw", "amount": 31}),
    ):
        test.pipe_input(accounts.COMMANDS, key, command, 0)
    events = test.read_records(accounts.EVENTS)
    table = accounts.fold({}, iter(events))
    assert {name: account["balance"] for name, account in table.items()} == {"ann": 70, "bob": 30}
    assert table == test.rows("accounts")
    assert [(key, event["why"]) for key, event in events if event["event"] == "refused"] == [
        ("bob", "30 is less than 31")
    ]


def test_an_event_that_is_doubled_or_lost_does_not_pass(example: Imported) -> None:
    accounts = example("event_sourcing/accounts.py")
    opened, deposited = {"event": "opened", "version": 1}, {"event": "deposited", "amount": 5, "version": 2}
    for events in ([opened, opened], [deposited]):
        with pytest.raises(AssertionError, match="follows version"):
            accounts.fold({}, iter([("ann", event) for event in events]))


def run(broker: TestBroker) -> subprocess.Popen[bytes]:
    code = (
        "import sys; from ottla.streams import run; from ottla.streams.command import found_topology; "
        "run(found_topology(sys.argv[1]), application_id='accounts', bootstrap=sys.argv[2], max_poll_records=20, "
        "session_timeout_ms=1000, transaction_timeout_ms=1000)"
    )
    file = str(EXAMPLES / "event_sourcing" / "accounts.py")
    return subprocess.Popen([sys.executable, "-c", code, file, broker.bootstrap_servers], env=os.environ)


def test_no_money_is_lost_or_made_through_a_kill_and_every_offset_can_be_rebuilt(
    broker: TestBroker, example: Imported
) -> None:
    accounts, rebuild = example("event_sourcing/accounts.py"), example("event_sourcing/rebuild.py")
    where, wheel, names = broker.bootstrap_servers, random.Random(5), [f"a{number}" for number in range(8)]
    with Admin(where) as admin:
        for topic in (accounts.COMMANDS, accounts.EVENTS):
            admin.create_topic(topic, 2)

    def send(commands: list[tuple[str, dict[str, object]]]) -> None:
        with Producer(where) as producer:
            for key, command in commands:
                producer.produce(accounts.COMMANDS, JSON.write(command), key)

    def transfers(count: int) -> list[tuple[str, dict[str, object]]]:
        return [
            (wheel.choice(names), {"do": "transfer", "amount": wheel.randrange(1, 60), "to": wheel.choice(names)})
            for _ in range(count)
        ]

    send([(name, {"do": do, "amount": 100}) for do in ("open", "deposit") for name in names])
    send(transfers(150))
    first = run(broker)
    try:
        broker.records(accounts.EVENTS, at_least=40, isolation_level="read_committed", timeout=60)
    finally:
        first.kill()
        first.wait()
    send(transfers(150))
    second = run(broker)
    try:
        broker.wait_for(
            lambda: query(accounts.topology(), "accounts", application_id="accounts", bootstrap=where).age.lag == 0,
            what="every command is decided",
            timeout=60,
        )
        second.send_signal(signal.SIGTERM)
        assert second.wait(60) == 0
    finally:
        second.kill()
        second.wait()
    table, ends, read = rebuild.table_at(where)
    assert sum(account["balance"] for account in table.values()) == 800
    answer = query(accounts.topology(), "accounts", application_id="accounts", bootstrap=where)
    assert {row.key: row.value for row in answer.rows} == table
    assert rebuild.keep(where) == len(names)
    with_snapshot, _, read_after = rebuild.table_at(where, kept=rebuild.snapshots(where))
    assert (with_snapshot, read_after) == (table, 0)
    for _ in range(3):
        at = {partition: wheel.randrange(end) for partition, end in ends.items()}
        plain, _, _ = rebuild.table_at(where, at)
        again, _, _ = rebuild.table_at(where, at, kept=rebuild.snapshots(where))
        assert plain == again
    assert read >= 300
