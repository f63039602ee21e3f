"""Fixtures for every test, and the rule that an unforeseen skip fails the run."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from tests.java_tools import QUICK_SPARK
from tests.workers import LONGEST, pytest_xdist_make_scheduler

if TYPE_CHECKING:
    from zookeeper_ensemble import ZookeeperEnsemble

__all__ = ["pytest_xdist_make_scheduler"]

ROOT = Path(__file__).resolve().parent.parent

# A suite of some thousand processes: without bytecode each compiles all that it imports, for seconds.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

os.environ.setdefault("SPARK_SUBMIT_OPTS", QUICK_SPARK)

settings.register_profile("ottla", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ottla")  # no deadlines: a busy machine is not a fault

NO_KAFKA = "Apache Kafka's jars are not here"
"""The skip reason of tests marked `kafka` on a machine without Maven or Java."""

NO_RIGHTS = "needs to be root, with the right to mount"
"""The skip reason of tests marked `root` for other users, and for root in a container that may not mount."""

NO_HISTORY = "the repository's history is not here"
"""The skip reason of tests that run an older commit, in a copy without Git or a shallow clone."""

NO_AZURITE = "Azurite is not here"
"""The skip reason of tests of lakes on Azure, on a machine without npm."""

NO_MARIADB = "MariaDB is not here"
NO_BROWSER = "Chromium is not here"
NO_SYSTEMD = "systemd is not here"
NO_POSTGRES = "PostgreSQL is not here"
"""The skip reason of tests that need a PostgreSQL, where the system's packages cannot be had."""

NO_KERBEROS = "Kerberos is not here"
"""The skip reason of tests that need a realm: `make kerberos` installs what they need."""

NO_OPENSEARCH = "OpenSearch's jars are not here"
"""The skip reason of tests that need an OpenSearch, on a machine without Maven or Java."""

FORESEEN_SKIPS = ("needs to be root", "real input is not here", "this machine has no IPv6", NO_HISTORY, NO_AZURITE,
                  NO_POSTGRES, NO_MARIADB, NO_OPENSEARCH, NO_BROWSER, NO_SYSTEMD, NO_KERBEROS,
                  "TransactionalMessageCopier takes no options")  # fmt: skip
"""Beginnings of the reasons of skips that are allowed everywhere."""

NO_ZOOKEEPER = "Apache ZooKeeper's jars are not here"
"""The skip reason of tests that need an ensemble, on a machine without Maven or Java."""

NO_HDFS = "Apache Hadoop's jars are not here"
"""The skip reason of tests that need an HDFS, on a machine without Maven or Java."""

FORESEEN_OUTSIDE_CI = (NO_KAFKA, NO_ZOOKEEPER, NO_HDFS, "no Apache Kafka jars", "no `java` on the PATH",
                       "no C compiler", "no curl", "no Java compiler", "no Go",
                       "Go's modules cannot be fetched")  # fmt: skip
"""Skips that are allowed on a developer's machine, where set-up left parts out; on CI they are a fault."""


LONG_ROOMS = ("sim", "lake", "server", "spark", "compat", "coordination", "damage", "faults", "fuzz", "tools", "client",
              "cli", "registry", "testing", "demo", "records")  # fmt: skip
"""Test rooms that start processes or compute for long; files of other rooms take a few seconds each."""


def begin_with_long_rooms(files: list[str]) -> list[str]:
    """Order files: the longest; the long rooms', from each in turn; the others, which fill the end of a run evenly.

    So none of several workers has a long file left when the others are done, and computing runs beside waiting.
    """
    places = []
    for rank, room in enumerate(LONG_ROOMS):
        here = [file for file in files if f"/tests/{room}/" in file]
        places += [(index / len(here), rank, file) for index, file in enumerate(here)]
    places += [(-len(LONGEST) + at, 0, file) for at, end in enumerate(LONGEST) for file in files if file.endswith(end)]
    long = list(dict.fromkeys(file for _, _, file in sorted(places)))
    return long + [file for file in files if file not in set(long)]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run kills, damages and the like at length")


@pytest.fixture(scope="session")
def at_length(request: pytest.FixtureRequest) -> bool:
    """True if tests that draw from many cases are to draw more of them: `make test ARGS=--long`."""
    return bool(request.config.getoption("--long"))


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark tests that take the Spark session, so that `-m "not spark"` leaves out all that need Java for Spark."""
    if {"spark", "spark_session"} & set(getattr(item, "fixturenames", ())):
        item.add_marker("spark")


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Collect tests without looking for garbage: the tests stay, and later searches leave them out."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_unconfigure() -> None:
    gc.unfreeze()  # so that libraries see their objects go, and report no leaks


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put long files first, and skip tests by mark if the machine lacks something."""
    order = {file: at for at, file in enumerate(begin_with_long_rooms(list({str(item.path): 0 for item in items})))}
    items.sort(key=lambda item: order[str(item.path)])
    libs = kafka_jars()
    for item in items:
        if "kafka" in item.keywords and libs is None:
            item.add_marker(pytest.mark.skip(reason=NO_KAFKA))
        if "root" in item.keywords and not may_mount():
            item.add_marker(pytest.mark.skip(reason=NO_RIGHTS))


@pytest.hookimpl(tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the unforeseen skips; `pytest_sessionfinish` has made the run fail for them."""
    for place, reason in unforeseen_skips(terminalreporter):
        terminalreporter.write_line(f"UNFORESEEN SKIP {place}: {reason}", red=True)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run that skipped for a reason outside the list."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and unforeseen_skips(reporter) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def unforeseen_skips(reporter: pytest.TerminalReporter) -> list[tuple[str, str]]:
    """(test, reason) of each skip that is not on a list of foreseen ones."""
    foreseen = FORESEEN_SKIPS if os.environ.get("CI") else FORESEEN_SKIPS + FORESEEN_OUTSIDE_CI
    found = []
    for report in reporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reason = reason.removeprefix("Skipped: ")
        if not reason.startswith(foreseen):
            found.append((report.nodeid, reason))
    return found


@cache
def may_mount() -> bool:
    """True if we are root and may mount a file system; in a container root often may not."""
    if os.geteuid() != 0:
        return False
    probe = ["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"]
    try:
        return subprocess.run(probe, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def kafka_jars() -> Path | None:
    """The folder of Apache Kafka 4.3.1's jars, if these and a Java runtime are there."""
    for folder in (os.environ.get("OTTLA_KAFKA_JARS"), ROOT / ".cache" / "kafka" / "libs"):
        if folder and shutil.which("java") and (Path(folder) / "kafka_2.13-4.3.1.jar").exists():
            return Path(folder)
    return None


@pytest.fixture(scope="session")
def kafka_libs() -> Path:
    """Apache Kafka's jars: `java -cp {kafka_libs}/* CLASS` runs its tools. Mark the test `kafka`."""
    libs = kafka_jars()
    if libs is None:
        pytest.skip(NO_KAFKA)
    return libs


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZookeeperEnsemble]:
    """Three ZooKeeper servers, each a process."""
    from zookeeper_ensemble import ZookeeperEnsemble, zookeeper_jars

    libs = zookeeper_jars()
    if libs is None:
        pytest.skip(NO_ZOOKEEPER)
    ensemble = ZookeeperEnsemble(libs, tmp_path_factory.mktemp("zookeeper"))
    yield ensemble
    ensemble.stop()
