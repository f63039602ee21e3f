"""Tests of which implementation runs, and that the pure one can be chosen."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from twins import NATIVE, NO_COMPILER

SHOW = (
    "from ottla.records import compiled; from ottla.records.builder import build_batch;"
    "from ottla.records.batch import Batch, scan_records; from ottla.records.reader import Record;"
    "batch = Batch(build_batch([Record(0, 5, b'k', b'v')]));"
    "print(compiled.which(), batch.crc_holds(), scan_records(batch).max_timestamp, batch.crc)"
)


def shown(**environment: str) -> str:
    inherited = {name: value for name, value in os.environ.items() if name != "OTTLA_PURE"}
    command = [sys.executable, "-c", SHOW]
    return subprocess.run(
        command, check=True, capture_output=True, text=True, env=inherited | environment
    ).stdout.strip()


def test_the_environment_forces_the_pure_part():
    said = shown(OTTLA_PURE="1")
    assert said.startswith("pure Python (OTTLA_PURE is set) True 5 ")


@pytest.mark.skipif(NATIVE is None, reason=NO_COMPILER)
def test_the_compiled_part_runs_where_it_was_built_and_writes_the_same_batch():
    said = shown()
    assert said.startswith("compiled (crc32c by ")
    assert said.split(" True 5 ")[1] == shown(OTTLA_PURE="1").split(" True 5 ")[1]
