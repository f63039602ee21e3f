"""Accounts by event sourcing: commands become events, exactly once, and every table is rebuilt from the events.

ottla streams run examples/event_sourcing/accounts.py --application-id accounts
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ottla.streams import JSON, TEXT, Record, StreamsBuilder, Topology

COMMANDS, EVENTS = "account-commands", "account-events"
Account = dict[str, Any]
Json = dict[str, Any]


def decide(account: Account | None, command: Json) -> tuple[Json | None, tuple[str, Json] | None]:
    """The event of a command, and a command for another account, if it takes one."""
    do, amount = command["do"], command.get("amount", 0)
    if do == "open":
        return (refused(command, "it is open already") if account else {"event": "opened"}), None
    if do == "receive":
        if account:
            return {"event": "received", "amount": amount, "from": command["from"]}, None
        return None, (command["from"], {"do": "receive", "amount": amount, "from": command["to"]})  # back it goes
    if account is None:
        return refused(command, "there is no such account"), None
    if amount <= 0:
        return refused(command, "the amount must be above 0"), None
    if do == "deposit":
        return {"event": "deposited", "amount": amount}, None
    if account["balance"] < amount:
        return refused(command, f"{account['balance']} is less than {amount}"), None
    if do == "withdraw":
        return {"event": "withdrawn", "amount": amount}, None
    if do == "transfer":
        to = command["to"]
        passed_on = {"do": "receive", "amount": amount, "to": to}
        return {"event": "sent", "amount": amount, "to": to}, (to, passed_on)
    return refused(command, f"{do} is no command"), None


def refused(command: Json, why: str) -> Json:
    return {"event": "refused", "command": command, "why": why}


SIGNS = {"opened": 0, "deposited": 1, "received": 1, "withdrawn": -1, "sent": -1}


def apply(account: Account | None, event: Json) -> Account | None:
    """The account after an event. Events are numbered: one that is lost or doubled does not pass."""
    if event["event"] == "refused":
        return account
    before = account or {"balance": 0, "version": 0}
    assert event["version"] == before["version"] + 1, f"event {event} follows version {before['version']}"
    balance = before["balance"] + SIGNS[event["event"]] * event.get("amount", 0)
    assert balance >= 0, f"{event} leaves {balance}"
    return {"balance": balance, "version": event["version"]}


class Clerk:
    """Decides on the commands of an account, and keeps its newest state for that."""

    def init(self, context: Any) -> None:
        self.context, self.accounts = context, context.store("accounts")

    def process(self, record: Record) -> None:
        kept = self.accounts.get(record.key)
        account = kept.value if kept else None
        event, other = decide(account, record.value)
        if event is not None:
            event = {**event, "version": (account or {"version": 0})["version"] + 1}
            after = apply(account, event)
            if after is not None:
                self.accounts.put(record.key, after, record.timestamp)
            self.context.forward(record.with_value(event), to="events")
        if other is not None:
            to, command = other
            sender = command if "from" in command else {**command, "from": record.key}
            self.context.forward(Record(to, sender, record.timestamp), to="commands")


def topology() -> Topology:
    builder = StreamsBuilder(key=TEXT, value=JSON)
    builder.add_store("accounts")
    decided = builder.stream(COMMANDS).process(Clerk, stores=["accounts"], name="clerk")
    decided.to(EVENTS, name="events")
    decided.to(COMMANDS, name="commands")  # the second half of a transfer, in the same transaction as the first
    return builder.build()


def fold(accounts: dict[str, Account], records: Iterator[tuple[str, Json]]) -> dict[str, Account]:
    """The table of accounts after more events."""
    for key, event in records:
        after = apply(accounts.get(key), event)
        if after is not None:
            accounts[key] = after
    return accounts
