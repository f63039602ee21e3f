"""Imported by the process that others are forked from: imports what worlds need, and plays two small ones.

So codecs, which are compiled at their first use, are there in each fork.
"""

from __future__ import annotations

import logging

import tests.sim.scripts.player  # noqa: F401
from tests.sim.run_mutant import anomalies

logging.getLogger("ottla").setLevel(logging.CRITICAL + 1)
for _brokers in (1, 3):
    assert anomalies(0, _brokers, ("clean restart", "transactions") if _brokers == 3 else ("clean restart",)) == []
