"""Events of a database of all types are those that Debezium's own connector wrote of it, but for what is listed."""

import asyncio
import re

import pytest
from tests.connect.plugins.capture.scenario import ask, differences, drop_slots, events_of_ours, recorded, run_file

ON_PURPOSE = {
    # With a replica identity that is not the primary key, a deletion does not tell the primary key: Debezium writes 0.
    r"p.\.inv\.by_index (key.*|headers|events)",
    # Debezium reads a negative scale as 2046.
    r"p.\.inv\.kinds value.*\.n6m2(\..*)?",
    # Debezium writes null for a column of the type name in the log.
    r"p.\.inv\.kinds value\.payload\.after\.nm",
    # Infinite dates, and timestamps that do not fit, wrap or are cut off there; here they have a name, or are null.
    r"p[ad]\.inv\.kinds value\.payload\.after\.(dt|ts)", r"pd\.inv\.kinds value\.payload\.after\.tm3",
    r"pe\.inv\.kinds value\.payload\.after\.(dt|ts|ts3)", r"p[bcf]\.inv\.kinds value\.payload\.after\.(dt|ts|ts3)",
    # NaN has its own spelling there; unknown types have the Java driver's.
    r"pb\.inv\.kinds value\.payload\.after\.(n|ln)",
    # Arrays of several dimensions are arrays of nulls there; arrays of bits, intervals, money and XML are missing.
    r"p.\.inv\.more value.*\.(md|bit1a|bit3a|iva|ma|xa)(\..*)?",
    # Debezium writes null, where the placeholder is meant, for bytes in base64 or hex.
    r"p[bcd]\.inv\.toast value\.payload\.after\.bigb",
    # Messages are no events of a transaction here, and tables that a transaction empties are counted with their name.
    r"pc\.message value\.payload\.transaction", r"pc\.transaction value\.payload\.(data_collections|event_count)",
    # These two are made anew by each database.
    r"p.\.inv\.defaults value\.payload\.after\.[fh]",
}  # fmt: skip


@pytest.fixture
def database(postgres_server):
    ask(postgres_server.database(), "DROP DATABASE IF EXISTS captured", "CREATE DATABASE captured")
    yield postgres_server.database("captured")
    drop_slots(postgres_server.database("captured"))
    ask(postgres_server.database(), "DROP DATABASE captured WITH (FORCE)")


def test_events_are_those_of_debezium_but_for_what_is_listed(database):
    run_file(database, "before.sql")
    ours = asyncio.run(events_of_ours(database))
    found = list(differences(recorded(), ours))
    others = [each for each in found if not any(re.fullmatch(known, each[0]) for known in ON_PURPOSE)]
    assert others == []
    idle = [known for known in ON_PURPOSE if not any(re.fullmatch(known, each[0]) for each in found)]
    assert idle == []
    assert len(ours) > 60
