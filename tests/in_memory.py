"""A folder in memory for tests that open, write and sync small files ten thousands of times.

What a disk keeps when its power is cut is tested on simulated disks, and test_real_disks.py mounts its own. Brokers
that serve clients stay on a disk: a file in memory cannot be read without waiting, so they would send it another way.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

MEMORY = Path("/dev/shm")
ROOM = 4 << 30
"""The free bytes without which tests use the disk: containers often have a few megabytes there."""


@pytest.fixture
def tmp_path(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    if not MEMORY.is_dir() or shutil.disk_usage(MEMORY).free < ROOM:
        yield tmp_path_factory.mktemp("tests")
        return
    folder = Path(tempfile.mkdtemp(prefix="ottla-", dir=MEMORY))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)  # a killed loader of a lake may still be writing
