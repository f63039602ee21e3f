"""Events of a MariaDB of all types are those that Debezium's own connector wrote of it, but for what is listed."""

import asyncio
import re

import pytest
from tests.connect.mariadb_server import ask
from tests.connect.plugins.binlog.scenario import RECORDED, events_of_ours, run_file
from tests.connect.plugins.capture.scenario import differences, recorded

ON_PURPOSE = {
    # A snapshot reads tables in an order of its own, and one alone of them is the first.
    r"p.\.inv\.(Odd_Name_|changing) value\.payload\.source\.snapshot",
    # A default is taken as the catalog has it now: that of a column which is gone or was renamed is not known.
    r"p.\.inv\.changing value\.schema\.fields\.(after|before)\.fields\.[wz]\.default",
    # Debezium makes a negative number of a BIGINT UNSIGNED above 63 bits; here it is null, with a warning.
    r"p.\.inv\.(defaults|kinds) value.*\.(h|biu)(\.default)?",
    # Debezium leaves out zeros at the end of a TIMESTAMP's fraction, in snapshots alone.
    r"p.\.inv\.defaults value\.payload\.after\.z",
    # Debezium keeps the quotes that are written twice in a default.
    r"p.\.inv\.defaults value\.schema\.fields\.(after|before)\.fields\.b\.default",
    # FLOAT(7,3) is a double there, with digits that the column does not have.
    r"p.\.inv\.kinds value.*\.f53(\.type)?",
    # The year 0 is 1900 there.
    r"p.\.inv\.kinds value\.payload\.after\.y",
    # The default of a masked column is not masked there.
    r"pc\.inv\.kinds value\.schema\.fields\.(after|before)\.fields\.vc\.default",
    # Debezium tells the begin, and no end, of each statement that changes a table.
    r"pc\.transaction (events|key.*|value.*)",
    # Timestamps that do not fit into nanoseconds wrap there.
    r"pf\.inv\.kinds value\.payload\.(after|before)\.dtm[36]",
    # This one is made anew by each server.
    r"p.\.inv\.defaults value\.payload\.(after|before)\.f",
}  # fmt: skip


@pytest.fixture
def database(mariadb):
    ask(mariadb.database(), "DROP DATABASE IF EXISTS inv")
    yield mariadb.database()
    ask(mariadb.database(), "DROP DATABASE IF EXISTS inv")


def test_events_are_those_of_debezium_but_for_what_is_listed(database):
    run_file(database, "before.sql")
    ours = asyncio.run(events_of_ours(database))
    found = list(differences(recorded(RECORDED), ours))
    others = [each for each in found if not any(re.fullmatch(known, each[0]) for known in ON_PURPOSE)]
    assert others == []
    idle = [known for known in ON_PURPOSE if not any(re.fullmatch(known, each[0]) for each in found)]
    assert idle == []
    assert len(ours) > 40
