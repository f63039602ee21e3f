"""The example of two sites: their activity in one cluster, one site down meanwhile, and the counts of both tiers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from tests.examples.conftest import EXAMPLES
from tests.mirror.sites import mirroring

from ottla.cli.connect import read_properties
from ottla.client import ClientError, Producer
from ottla.testing import TestBroker

NOON = 1431864000000
MINUTE = 60_000


def write(site: TestBroker, count: int, hour: int) -> None:
    with Producer(site.bootstrap_servers) as producer:
        for number in range(count):
            producer.produce("page-views", b"view", timestamp=NOON + hour * 60 * MINUTE + number * MINUTE)


def test_activity_of_both_sites_is_complete_once_the_site_that_was_down_is_back(
    example: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    audit = example("two_sites/audit.py")
    with TestBroker(directory=tmp_path) as tokyo:
        write(tokyo, 20, 0)
        where = tokyo.bootstrap_servers
    with TestBroker() as paris, TestBroker() as everything:
        flows = read_properties(str(EXAMPLES / "two_sites" / "mm2.properties")) | {
            "paris.bootstrap.servers": paris.bootstrap_servers,
            "tokyo.bootstrap.servers": where,
            "all.bootstrap.servers": everything.bootstrap_servers,
            "refresh.topics.interval.seconds": "1",
        }

        def verdict(site: str, address: str) -> str:
            return str(audit.audit(site, address, everything.bootstrap_servers).verdict())

        write(paris, 90, 0)
        assert verdict("paris", paris.bootstrap_servers) == "90 missing"
        with mirroring(flows):
            everything.wait_for(
                lambda: verdict("paris", paris.bootstrap_servers) == "complete", what="records of paris", timeout=60
            )
            with pytest.raises(ClientError):
                audit.audit("tokyo", where, everything.bootstrap_servers)
            with TestBroker({"listeners": f"PLAINTEXT://{where}"}, directory=tmp_path) as tokyo:
                write(tokyo, 5, 2)
                everything.wait_for(lambda: verdict("tokyo", where) == "complete", what="records of tokyo", timeout=60)
                assert audit.counted(where, "page-views", audit.HOUR) == {NOON: 20, NOON + 120 * MINUTE: 5}


def test_an_hour_that_differs_is_named_and_drawn(example: Callable[[str], ModuleType]) -> None:
    audit = example("two_sites/audit.py")
    tiers = audit.Tiers(Counter({NOON: 10, NOON + audit.HOUR: 4}), Counter({NOON: 7, NOON + audit.HOUR: 5}))
    assert tiers.verdict() == "3 missing, 1 too many"
    assert [" ".join(line.split()) for line in audit.lines("paris", tiers)] == [
        "paris 2 hours 14 written 12 arrived: 3 missing, 1 too many",
        "2015-05-17 12:00 10 written 7 arrived",
        "2015-05-17 13:00 4 written 5 arrived",
    ]
    assert audit.picture({"paris": tiers}).count("<path") == 4
