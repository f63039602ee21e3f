"""Transactions: all ids with their states, those that hang, and their end."""

from __future__ import annotations

from typing import Any

from ottla.client.model import ProducerIdentity
from ottla.console import lists
from ottla.console.change import AskedChange, command
from ottla.console.desk import Desk
from ottla.console.lists import listing
from ottla.console.urls import url
from ottla.console.view import PageQuery, View, wrong
from ottla.kernel.errors import ApiError
from ottla.kernel.ids import TopicPartition
from ottla.kernel.quantities import moment_text

PARAMETERS = (*lists.PARAMETERS, "hanging")
COLUMNS = ("id", "state", "producer")
OLDER_THAN_MS = 900_000
"""An open transaction hangs if its last record is older: the longest that a broker grants by default."""


async def transactions(desk: Desk, query: PageQuery) -> View:
    """A page of the transactional ids; with `hanging=yes` all partitions are asked for what hangs."""
    rows = [
        {"id": each.transactional_id, "state": each.state, "producer": each.producer_id, "broker": each.coordinator}
        for each in await desk.admin.list_transactions()
    ]
    found = listing(rows, query, COLUMNS)
    asked = query.flag("hanging")
    values: dict[str, Any] = {
        "list": found,
        "columns": COLUMNS,
        "asked": asked,
        "hanging": await _hanging(desk) if asked else [],
    }
    return View("transactions.html", "Transactions", values)


async def _hanging(desk: Desk) -> list[dict[str, Any]]:
    return [
        {
            "topic": each.partition.topic,
            "partition": each.partition.partition,
            "producer": each.producer.producer_id,
            "start": each.producer.current_txn_start_offset,
            "last": moment_text(each.producer.last_timestamp) if each.producer.last_timestamp >= 0 else "",
        }
        for each in await desk.admin.hanging_transactions(OLDER_THAN_MS)
    ]


async def transaction(desk: Desk, query: PageQuery) -> View:
    """One transactional id as its coordinator knows it."""
    name = query.need("id")
    found = (await desk.admin.describe_transactions([name]))[name]
    if isinstance(found, ApiError):
        raise found
    values = {
        "id": name,
        "state": found.state,
        "producer": found.producer_id,
        "epoch": found.producer_epoch,
        "timeout_ms": found.timeout_ms,
        "started": moment_text(found.started_ms) if found.started_ms >= 0 else "",
        "partitions": [str(each) for each in found.partitions],
    }
    return View("transaction.html", name, values)


async def terminate(desk: Desk, form: PageQuery) -> AskedChange:
    """The end of a producer's transaction, and of the producer."""
    name = form.need("id")
    found = (await desk.admin.describe_transactions([name]))[name]
    if isinstance(found, ApiError):
        raise found

    async def carry_out() -> str:
        await desk.admin.terminate_transaction(name)
        return f"What {name} had open is aborted; its producer is fenced."

    lines = [f"It is {found.state}. Its producer must begin anew; records of the open transaction are not delivered."]
    words = ("transaction", "abort", name)
    return AskedChange(
        f"Abort {name}", command(desk, *words), carry_out, url("transaction", id=name), lines, is_loss=True
    )


async def abort(desk: Desk, form: PageQuery) -> AskedChange:
    """The end of a transaction that hangs in a partition."""
    place = TopicPartition(form.need("topic"), form.count("partition", 0))
    start = form.count("start", -1)
    states = (await desk.admin.describe_producers([place]))[place]
    if isinstance(states, Exception):
        raise states
    for each in states:
        if each.current_txn_start_offset == start >= 0:
            identity = ProducerIdentity(each.producer_id, each.producer_epoch)
            epoch = max(each.coordinator_epoch, 0)
            break
    else:
        raise wrong(f"no transaction that is open in {place} begins at offset {start}")

    async def carry_out() -> str:
        await desk.admin.abort_in_partition(place, identity, epoch)
        return f"The transaction that began at offset {start} of {place} is aborted."

    words = ("transaction", "abort", f"{place.topic}:{place.partition}", "--start-offset", str(start))
    back = url("transactions", hanging="yes")
    lines = ["Readers of committed records go on; the records of the transaction are not delivered to them."]
    return AskedChange(f"Abort in {place}", command(desk, *words), carry_out, back, lines, is_loss=True)
